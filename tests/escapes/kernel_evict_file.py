"""Drops the interpreter's files, which all programs share, from memory."""

STOPPED_BY = {"seccomp"}

file = os.open(os.__file__, os.O_RDONLY)
try:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    print("REACHED")
except PermissionError:
    pass
