"""Remounts its data folder with more room."""

STOPPED_BY = {"caps", "landlock", "seccomp"}

if kernel("mount", 0, os.getcwd().encode(), 0, 32, b"size=1g") == 0:
    print("REACHED")
