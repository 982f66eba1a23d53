"""Reads a shared file only if it is in memory, which tells what other programs have read; and by polling."""

STOPPED_BY = {"seccomp"}

import errno

HIGH_PRIORITY, NO_WAIT, DO_NOT_CACHE = 1, 8, 128
file = os.open(os.__file__, os.O_RDONLY)
own = os.open("written", os.O_RDWR | os.O_CREAT)
for flags in (HIGH_PRIORITY, NO_WAIT, DO_NOT_CACHE):
    for action in (lambda: os.preadv(file, [bytearray(8)], 0, flags), lambda: os.pwritev(own, [b"x"], 0, flags)):
        try:
            action()
            print("REACHED")
        except BlockingIOError:  # not in memory: an answer as well
            print("REACHED")
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                print("REACHED")
