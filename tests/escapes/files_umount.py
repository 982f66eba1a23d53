"""Unmounts its limited folder to write into what lies below."""

STOPPED_BY = {"caps", "landlock", "seccomp"}

os.chdir("/")
if kernel("umount2", b"/mnt/data", 2) == 0:
    print("REACHED")
