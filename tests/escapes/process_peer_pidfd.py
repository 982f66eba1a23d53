"""Asks its socket for a descriptor of the host process, and signals that."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
MAY_LACK = "a kernel before 6.5 has no SO_PEERPIDFD"

import socket

SO_PEERPIDFD = 77
host = struct.unpack("i", socket.socket(fileno=os.dup(3)).getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4))[0]
if kernel("pidfd_send_signal", host, 0, 0, 0) == 0:
    print("REACHED")
