"""Removes a file of the host from a folder that anyone may write."""

STOPPED_BY = {"mount", "landlock"}

with open(f"{OPEN_FOLDER}/of the guest", "w"):
    print("REACHED")
