"""Opens its own memory as a file, which ignores page protection."""

STOPPED_BY = {"mount", "landlock"}

with open("/proc/self/mem", "r+b"):
    print("REACHED")
