"""Gives its own pages to a pipe."""

STOPPED_BY = {"seccomp"}

if kernel("vmsplice", os.pipe()[1], 0, 0, 0) not in REFUSED:
    print("REACHED")
