"""Is open to a debugger of the same user."""

STOPPED_BY = {"caps"}

GET_DUMPABLE = 3
if kernel("prctl", GET_DUMPABLE, 0, 0, 0, 0) == 1:
    print("REACHED")
