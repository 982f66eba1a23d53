"""Reads its own memory map, the first step of most exploits."""

STOPPED_BY = {"mount", "landlock"}

if "libc" in open("/proc/self/maps").read():
    print("REACHED")
