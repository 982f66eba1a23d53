"""Reads a file of the host by its path."""

STOPPED_BY = {"mount", "landlock"}

if "canary" in open(SECRET_FILE).read():
    print("REACHED")
