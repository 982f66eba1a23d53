"""An exception as the program's author should read it: their lines only, no carets."""

import linecache
import os
import sys
import traceback

from toolfold_guest.rewrite import FILENAME

_OURS = os.path.dirname(os.path.dirname(__file__))


def describe(error: BaseException, text: str) -> tuple[str, str]:
    """The traceback, and what it says without the frames: type and message, however many lines they have.

    Also leaves the program's lines where `linecache` finds them.
    """
    remember_source(text)
    whole = traceback.TracebackException.from_exception(error, compact=True)
    _clean(whole, set())
    return _neutral("".join(whole.format())).rstrip("\n"), _neutral(_message(whole)).rstrip("\n")


def _message(whole: traceback.TracebackException) -> str:
    parts = list(whole.format_exception_only())
    # A syntax error in text that the program evaluated begins with the place in that text.
    while len(parts) > 1 and parts[0].startswith(" "):
        del parts[0]
    return "".join(parts)


def remember_source(text: str) -> None:
    linecache.cache[FILENAME] = (len(text), None, text.splitlines(keepends=True), FILENAME)


def _clean(whole: traceback.TracebackException, seen: set[int]) -> bool:
    """Keep the program's own frames, here and in causes; false if it has none."""
    if id(whole) in seen:
        return False
    seen.add(id(whole))
    folder = os.getcwd() + os.sep
    frames = [
        # A new summary without columns: the carets of 3.11 cost a model tokens and tell it little.
        traceback.FrameSummary(frame.filename, frame.lineno, frame.name, lookup_line=True)
        for frame in whole.stack
        if frame.filename == FILENAME or frame.filename.startswith(folder)
    ]
    whole.stack = traceback.StackSummary.from_list(frames)
    if whole.__cause__ is not None and not _clean(whole.__cause__, seen):
        whole.__cause__ = None
        whole.__suppress_context__ = False
    if whole.__context__ is not None and not _clean(whole.__context__, seen):
        whole.__context__ = None
    for member in whole.exceptions or ():
        _clean(member, seen)
    return bool(frames) or bool(whole.exceptions)


def _neutral(text: str) -> str:
    """Without the host's paths, which the tier `landlock` cannot hide."""
    for prefix in {sys.prefix, sys.base_prefix, _OURS}:
        if prefix not in ("/py", "/py/guest", "/usr", "/"):
            text = text.replace(prefix + os.sep, "/py/")
    return text
