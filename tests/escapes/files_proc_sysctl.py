"""Opens a kernel setting for writing: where core dumps go is a way to root."""

STOPPED_BY = {"user", "mount", "landlock", "caps"}
NEEDS_ROOT = True

with open("/proc/sys/kernel/core_pattern", "r+b"):
    print("REACHED")
