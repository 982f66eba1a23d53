"""Sends from a socket pair, which it may have, to an address of the host."""

STOPPED_BY = {"mount", "seccomp"}
WITNESS = "bait.visits or 'REACHED' in printed"

import errno, socket

mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
try:
    mine.connect(UNIX_PATH)
except OSError as error:
    if error.errno == errno.EPROTOTYPE:  # found it: a stream socket
        print("REACHED")
