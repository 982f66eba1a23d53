"""Reads a package that is installed on the host and is none of the libraries for programs."""

STOPPED_BY = {"mount", "landlock"}

import sys

inside = HOST_PACKAGE_FILE.rpartition("-packages/")[2]
for path in (HOST_PACKAGE_FILE, *(f"{folder}/{inside}" for folder in (*sys.path, "/py/site", "/py/site1"))):
    try:
        if open(path, "rb").read(1):
            print("REACHED")
    except OSError:
        continue
