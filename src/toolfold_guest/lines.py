"""Which line of the program makes a call.

It is found when the tool is called, not when the call leaves: by then a task or a thread may run it, and none of the
program's frames is left on the stack.
"""

from typing import Any

from toolfold_guest.rewrite import FILENAME
from toolfold_guest.wire import MAX_LINE


def line_of(frame: Any) -> int:
    """The line of the program that a frame, or the nearest of its callers, stands at; 0 if none of them is its own."""
    # A library calls the tool for the program.
    while frame.f_code.co_filename != FILENAME:
        frame = frame.f_back
        if frame is None:
            return 0
    line = frame.f_lineno
    # Code that the program compiles itself may have any line, or none.
    return line if line is not None and 0 < line <= MAX_LINE else 0
