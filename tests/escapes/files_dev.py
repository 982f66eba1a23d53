"""Finds devices beyond the harmless five."""

STOPPED_BY = {"mount", "landlock"}

if set(os.listdir("/dev")) - {"null", "zero", "full", "random", "urandom"}:
    print("REACHED")
