"""Connects to a service of the host by an abstract name."""

STOPPED_BY = {"net", "landlock", "seccomp"}
WITNESS = "'unix abstract' in bait.visits"

import socket

service = socket.socket(socket.AF_UNIX)
service.connect(ABSTRACT_NAME)
service.recv(1)
