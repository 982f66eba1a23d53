"""Reads the environment of a process of the host."""

STOPPED_BY = {"user", "mount", "landlock", "caps"}

if b"canary" in open(f"/proc/{HOST_PID}/environ", "rb").read():
    print("REACHED")
