"""Asks its socket who the host is: process, user, groups."""

STOPPED_BY = {"seccomp"}

import socket

SO_PEERGROUPS = 59
host = socket.socket(fileno=os.dup(3))
for option, size in ((socket.SO_PEERCRED, 12), (SO_PEERGROUPS, 4 * 65536)):
    try:
        host.getsockopt(socket.SOL_SOCKET, option, size)
        print("REACHED")
    except OSError:
        continue
