"""Starts a program with `posix_spawn`."""

STOPPED_BY = {"seccomp", "landlock"}

import sys

executable = next(path for path in ("/py/bin/python3", sys.executable) if os.path.exists(path))
if os.posix_spawn(executable, [executable, "-c", ""], {}):
    print("REACHED")
