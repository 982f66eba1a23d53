"""Listens for the host to connect."""

STOPPED_BY = {"net", "landlock", "seccomp"}
WITNESS = "'dialled' in bait.visits"

import socket

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", DIAL_PORT))
listener.listen()
listener.settimeout(0.5)
listener.accept()
