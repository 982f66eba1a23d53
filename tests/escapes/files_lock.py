"""Locks a file of the host that it may only read, so that others wait for it."""

STOPPED_BY = {"seccomp"}

import fcntl

mine, other = (os.open(os.__file__, os.O_RDONLY) for _ in range(2))
fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
try:
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("REACHED")
