"""Opens thousands of files."""

STOPPED_BY = {"rlimits"}

files = [os.open("/dev/null", os.O_RDONLY) for _ in range(300 if IS_CONTROL else 5000)]
print("REACHED")
