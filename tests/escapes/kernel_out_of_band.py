"""Sends out-of-band bytes over a unix socket, where the kernel had its last escapes."""

STOPPED_BY = {"seccomp"}

import socket

here, there = socket.socketpair()
sent = 0
for send in (here.send, lambda data, flags: here.sendmsg([data], [], flags)):
    try:
        sent += send(b"x", socket.MSG_OOB)
    except PermissionError:
        continue
if sent:
    print("REACHED")
