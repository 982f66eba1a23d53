"""Stores data in attributes of files, which no limit counts."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "the file system here takes no attributes"

open("file", "w").close()
if kernel("setxattr", b"file", b"user.store", b"x" * 100, 100, 0) == 0:
    print("REACHED")
