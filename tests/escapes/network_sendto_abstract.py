"""Names an abstract address of the host in `sendto` on a socket pair."""

STOPPED_BY = {"net", "landlock"}
WITNESS = "'REACHED' in printed"

import errno, socket

mine, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
try:
    mine.sendto(b"x", ABSTRACT_NAME)
except OSError as error:
    if error.errno == errno.EPROTOTYPE:  # found it: a stream socket
        print("REACHED")
