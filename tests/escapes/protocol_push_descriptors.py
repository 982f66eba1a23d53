"""Pushes descriptors into the host until it has none left."""

STOPPED_BY = {"protocol", "seccomp"}
WITNESS = "descriptors > 50"

import socket

host = socket.socket(fileno=3)
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
body = json.dumps(calls_frame([[1, 0, {}]])).encode()
socket.send_fds(host, [struct.pack("<I", len(body)) + body], files)
import time

time.sleep(0.1)
