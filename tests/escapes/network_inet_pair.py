"""Asks for a socket pair of the internet kind."""

STOPPED_BY = {"seccomp"}

import errno, socket

try:
    socket.socketpair(socket.AF_INET)
except OSError as error:
    if error.errno == errno.EOPNOTSUPP:  # the kernel's own answer: the request got there
        print("REACHED")
