"""Asks its socket for a descriptor of the host process."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "a kernel before 6.5 has no SO_PEERPIDFD"

import socket

SO_PEERPIDFD = 77
host = socket.socket(fileno=os.dup(3))
try:
    if struct.unpack("i", host.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4))[0] >= 0:
        print("REACHED")
except OSError:
    pass
