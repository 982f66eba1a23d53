"""Connects to a service of the host by the path of its socket."""

STOPPED_BY = {"mount", "seccomp"}
WITNESS = "'unix path' in bait.visits"

import socket

service = socket.socket(socket.AF_UNIX)
service.connect(UNIX_PATH)
service.recv(1)
