"""Reads the configuration of the host: more than the few files that every jail has."""

STOPPED_BY = {"mount", "landlock"}

if len(os.listdir("/etc")) > 8:
    print("REACHED")
