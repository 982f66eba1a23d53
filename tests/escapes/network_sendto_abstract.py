"""Names an abstract address of the host in `sendto` on a socket pair."""

STOPPED_BY = {"net", "landlock", "seccomp"}
WITNESS = "'datagram abstract' in bait.visits"

import socket, time

mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
mine.sendto(b"x", ABSTRACT_NAME + "d")
time.sleep(0.05)
