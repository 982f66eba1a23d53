"""Runs a program that is a file nowhere."""

STOPPED_BY = {"seccomp", "landlock"}
WITNESS = "'exit code' in problem_text"

import sys

executable = next(path for path in ("/py/bin/python3", sys.executable) if os.path.exists(path))
copy = kernel("memfd_create", b"copy", 0)
os.write(copy, b"#!" + executable.encode() + b" -S\nimport os; os._exit(7)\n")
arguments = (ctypes.c_char_p * 2)(b"copy", None)
kernel("execveat", copy, b"", arguments, arguments, 0x1000)
