"""Shuts down its sending side only, and lives on."""

STOPPED_BY = {"protocol"}
WITNESS = "is_alive or error"

import socket, time

socket.socket(fileno=3).shutdown(socket.SHUT_WR)
time.sleep(1000)
