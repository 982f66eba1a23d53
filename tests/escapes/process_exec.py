"""Replaces itself by another program, to shed what the guest set up."""

STOPPED_BY = {"seccomp", "landlock"}
WITNESS = "status == 'failed' and 'code 7' in problem_text"

import sys

executable = next(path for path in ("/py/bin/python3", sys.executable) if os.path.exists(path))
# Inside the jail the interpreter's own library is not where it was built to look.
environment = {**os.environ, "LD_LIBRARY_PATH": "/py/lib:/py/lib64:/py/bin"}
os.execve(executable, [executable, "-S", "-c", "import os; os._exit(7)"], environment)
