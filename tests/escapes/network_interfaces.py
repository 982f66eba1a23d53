"""Sees the network interfaces of the host."""

STOPPED_BY = {"net", "seccomp"}
MAY_LACK = "this machine has no interface but loopback"

import socket

if len(socket.if_nameindex()) > 1:
    print("REACHED")
