"""Connects to a service of the host on its loopback address."""

STOPPED_BY = {"net", "landlock", "seccomp"}
WITNESS = "'tcp' in bait.visits"

import socket

socket.create_connection(("127.0.0.1", TCP_PORT), 1).recv(1)
