"""Names an address in `sendto` on a socket pair."""

STOPPED_BY = {"mount", "seccomp"}
WITNESS = "'datagram path' in bait.visits"

import socket, time

mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
mine.sendto(b"x", DATAGRAM_PATH)
time.sleep(0.05)
