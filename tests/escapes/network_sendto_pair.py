"""Names an address in `sendto` on a socket pair, which is not filtered."""

STOPPED_BY = {"mount"}
WITNESS = "'REACHED' in printed"

import errno, socket

mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
try:
    mine.sendto(b"x", UNIX_PATH)
except OSError as error:
    if error.errno == errno.EPROTOTYPE:  # found it: a stream socket
        print("REACHED")
