"""Writes a hint on a file's lifetime, which stays with the file for whoever opens it next."""

STOPPED_BY = {"seccomp"}

import fcntl

SET_HINT, GET_HINT, LONG = 1036, 1035, 4
file = os.open("hinted", os.O_RDWR | os.O_CREAT)
fcntl.fcntl(file, SET_HINT, struct.pack("=Q", LONG))
if fcntl.fcntl(file, GET_HINT, bytes(8)) == struct.pack("=Q", LONG):
    print("REACHED")
