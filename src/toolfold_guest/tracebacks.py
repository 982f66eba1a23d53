"""An exception as the program's author should read it: their lines only, no carets."""

import linecache
import os
import sys
import traceback

from toolfold_guest.rewrite import FILENAME

MOST_FRAMES = 50
_OURS = os.path.dirname(os.path.dirname(__file__))


def describe(error: BaseException, text: str) -> tuple[str, str]:
    """The traceback, and what it says without the frames: type and message, however many lines they have.

    Also leaves the program's lines where `linecache` finds them.
    """
    remember_source(text)
    try:
        whole = traceback.TracebackException.from_exception(error, compact=True)
        _clean(whole, set())
        report, message = "".join(whole.format()), _message(whole)
    except Exception:  # noqa: BLE001  # too deep to walk, or with attributes of the program's own that raise
        report, message = _shallow(error)
    return _neutral(report).rstrip("\n"), _neutral(message).rstrip("\n")


def _shallow(error: BaseException) -> tuple[str, str]:
    """The exception alone, without what it was raised from, in or with."""
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # it is the program's own method
        text = "<exception str() failed>"
    message = f"{name}: {text}" if text else name
    # Not the attribute of the instance: that may be the program's own, too.
    tb = vars(BaseException)["__traceback__"].__get__(error)
    frames = [frame for frame in traceback.extract_tb(tb) if frame.filename == FILENAME][-MOST_FRAMES:]
    lines = [f'  File "{FILENAME}", line {frame.lineno}, in {frame.name}\n    {frame.line}\n' for frame in frames]
    return "".join(["Traceback (most recent call last):\n", *lines, message]), message


def _message(whole: traceback.TracebackException) -> str:
    parts = list(whole.format_exception_only())
    # A syntax error in text that the program evaluated begins with the place in that text.
    while len(parts) > 1 and parts[0].startswith(" "):
        del parts[0]
    return "".join(parts)


def remember_source(text: str, file: str = FILENAME) -> None:
    """Leave the program's lines where `linecache`, and so `inspect`, `traceback` and `doctest`, find them.

    Done for every program: to look whether one may want them takes longer.
    """
    lines = text.splitlines(keepends=True)
    linecache.cache[FILENAME] = linecache.cache[file] = (len(text), None, lines, FILENAME)


def _clean(whole: traceback.TracebackException, seen: set[int]) -> bool:
    """Keep the program's own frames, here and in causes; false if it has none."""
    if id(whole) in seen:
        return False
    seen.add(id(whole))
    folder = os.getcwd() + os.sep
    frames = [
        # A new summary without columns: the carets of 3.11 cost a model tokens and tell it little.
        traceback.FrameSummary(frame.filename, frame.lineno, _name(frame), lookup_line=True)
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


def _name(frame: traceback.FrameSummary) -> str:
    """What an outcome calls the program's own block; the program itself sees the name that CPython gives it."""
    return "__main__" if frame.filename == FILENAME and frame.name == "<module>" else frame.name


def _neutral(text: str) -> str:
    """Without the host's paths, which the tier `landlock` cannot hide."""
    for prefix in {sys.prefix, sys.base_prefix, _OURS}:
        if prefix not in ("/py", "/py/guest", "/usr", "/"):
            text = text.replace(prefix + os.sep, "/py/")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()  # lone surrogates
