"""Reads the arguments of a process of the host."""

STOPPED_BY = {"mount", "landlock"}

if b"canary" in open(f"/proc/{HOST_PID}/cmdline", "rb").read():
    print("REACHED")
