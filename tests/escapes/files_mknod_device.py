"""Makes a device file of its own."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "root may not make devices here"

os.mknod("memory", 0o020600, os.makedev(1, 3))
print("REACHED")
