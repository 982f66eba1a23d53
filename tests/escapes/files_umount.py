"""Unmounts its limited folder to write into what lies below."""

STOPPED_BY = {"caps", "landlock", "seccomp"}

os.chdir("/")
for target in (b"/mnt/data", b"/tmp", b"/.tree"):
    if kernel("umount2", target, 2) == 0:
        print("REACHED")
