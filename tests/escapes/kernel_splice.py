"""Moves pages between pipes and files, which has broken page protection before."""

STOPPED_BY = {"seccomp"}

ends = os.pipe()
if kernel("tee", ends[0], ends[1], 1, 2) not in REFUSED:
    print("REACHED")
