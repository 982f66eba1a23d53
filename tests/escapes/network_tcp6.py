"""Connects to a service of the host on its IPv6 loopback address."""

STOPPED_BY = {"net", "landlock", "seccomp"}
WITNESS = "'tcp6' in bait.visits"
MAY_LACK = "this machine has no IPv6"

import socket

socket.create_connection(("::1", TCP6_PORT), 1).recv(1)
