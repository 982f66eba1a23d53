"""Puts a module where the next zygote would import it from."""

STOPPED_BY = {"user", "mount", "landlock", "caps"}
NEEDS_ROOT = True

import sys

for folder in set(sys.path) - {os.getcwd()}:  # the data folder is its own, and is on the path on purpose
    path = f"{folder}/of_the_guest_{os.getpid()}"
    if os.path.isdir(folder):
        try:
            open(path, "w").close()
        except OSError:
            continue
        os.unlink(path)
        print("REACHED")
