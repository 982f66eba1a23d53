"""Looks for descriptors that it was not given: sockets of other guests, files of the host."""

STOPPED_BY = {"own process"}

import fcntl

for number in range(4, 1024):
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
        print("REACHED")
    except OSError:
        continue
