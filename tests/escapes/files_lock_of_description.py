"""Locks part of a file of the host with a lock that belongs to an open file, not to a process."""

STOPPED_BY = {"seccomp"}

import fcntl

SET_LOCK, GET_LOCK = 37, 36
file = os.open(os.__file__, os.O_RDONLY)
wanted = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0)
fcntl.fcntl(file, SET_LOCK, wanted)
other = os.open(os.__file__, os.O_RDONLY)
found = fcntl.fcntl(other, GET_LOCK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
if struct.unpack_from("h", found)[0] == fcntl.F_RDLCK:
    print("REACHED")
