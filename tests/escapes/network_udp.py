"""Sends a datagram to a service of the host: enough to leak all it knows."""

STOPPED_BY = {"net", "seccomp"}
WITNESS = "'udp' in bait.visits"

import socket, time

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", UDP_PORT))
time.sleep(0.05)
