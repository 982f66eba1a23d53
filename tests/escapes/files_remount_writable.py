"""Remounts the tree below its root so that it can be written."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
NEEDS_ROOT = True

MS_REMOUNT_BIND = 32 | 4096
if not IS_CONTROL:
    target = b"/.tree"
else:  # a read-only mount in a mount namespace of its own: the host's root is not for playing
    target = OPEN_FOLDER.encode()
    kernel("unshare", 0x20000)
    kernel("mount", 0, b"/", 0, 0x44000, 0)
    kernel("mount", target, target, 0, 4096, 0)
    kernel("mount", 0, target, 0, MS_REMOUNT_BIND | 1, 0)
if kernel("mount", 0, target, 0, MS_REMOUNT_BIND, 0) == 0:
    open(target + b"/of the guest", "w").close()
    print("REACHED")
