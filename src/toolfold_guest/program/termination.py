"""Termination of a program: exit handlers, finalizers, flushed files, hints and tracebacks.

A guest leaves with `os._exit`, which does nothing of this. Only programs whose text speaks of something that could be
left behind get it, for to let go of a program's data takes time, too.
"""

import atexit
import gc
import io
import linecache
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from toolfold_guest.calls import pending_call
from toolfold_guest.calls.channel import Habits
from toolfold_guest.program.compiler import FILENAME
from toolfold_guest.shared.call_style import MOST_NOTES, describe_calls, parallel_hints

_LEAVES_SOMETHING = re.compile(
    r"open|atexit|__del__|finally|yield|weakref|File|zip|logging|Writer|sqlite|shelve|ExitStack"
)

_Handler = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
_handlers: list[_Handler] = []


def prepare() -> None:
    """Keep the program's exit handlers apart from those of libraries that the zygote loaded."""
    atexit.register, atexit.unregister = _register, _unregister  # type: ignore[assignment]  # the same to a caller


def _register(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    _handlers.append((func, args, kwargs))
    return func


def _unregister(func: Callable[..., Any]) -> None:
    _handlers[:] = [handler for handler in _handlers if handler[0] != func]


def leaves_something(text: str) -> bool:
    """Whether a program may leave anything to end; false for most, at the cost of one look at their text."""
    return _LEAVES_SOMETHING.search(text) is not None


def has_handlers() -> bool:
    """Whether some program, of this session or this one, registered what is to be called at the end."""
    return bool(_handlers)


def end(names: dict[str, Any], *, is_session: bool) -> None:
    """What the interpreter does between the last line and its exit; a session's names live on."""
    if not is_session:
        _run_handlers()
    # First: the collector may close the file under a buffer before the buffer itself.
    for item in gc.get_objects():
        # By type, not by what it says of itself: the program's own objects must not be asked.
        if issubclass(type(item), io.IOBase) and not _is_ours(item):
            _flush(item)
    if not is_session:
        warnings.formatwarning = _warning_at_exit
        _clear(names)
        gc.collect()


def _warning_at_exit(message: Any, category: type[Warning], *_: object, **__: object) -> str:
    """As the interpreter says it at its end, when there is no line to name."""
    return f"sys:1: {category.__name__}: {message}\n"


def _run_handlers() -> None:
    while _handlers:
        function, args, kwargs = _handlers.pop()
        try:
            function(*args, **kwargs)
        except SystemExit:
            continue
        except BaseException:  # noqa: BLE001  # the interpreter prints it and goes on to the next, too
            traceback.print_exc()


def _clear(names: dict[str, Any]) -> None:
    """In the interpreter's order: names with one underscore first, what functions need last."""
    for is_private in (True, False):
        for name in list(names):
            if name != "__builtins__" and (name.startswith("_") and not name.startswith("__")) is is_private:
                names[name] = None


def _is_ours(file: Any) -> bool:
    return file is sys.stdout or file is sys.stderr or type(file).__module__ == "toolfold_guest.program.output_streams"


def _flush(file: Any) -> None:
    try:
        if not file.closed and file.writable():
            file.flush()
    except Exception:  # noqa: BLE001  # a file whose disk is full, or a class of the program's own
        return


# ----------------------------------------------------------------------------------------------------
# What a program that ended is told to do better next time. Must not cost a program that needs no hint anything.


def hints_of(habits: Habits, notes: list[str]) -> list[str]:
    hints = [*notes[:MOST_NOTES], *parallel_hints(habits.in_place)]
    if len(notes) > MOST_NOTES:
        hints.insert(MOST_NOTES, f"{len(notes) - MOST_NOTES} other parts of the value were sent as text, too")
    hints += [
        f"{name}(...) at line {line} was made after later calls, when its value was used; write 'await {name}(...)'"
        for name, line in dict.fromkeys(habits.late[:MOST_NOTES])
    ]
    return hints


_WRITES_OUTSIDE = re.compile(r"""["'](?:/(?!mnt/data|tmp/|dev/)|\.\./)""")
_NOT_SEARCHED = frozenset({"/.tree", "/mnt/data"})


def may_write_outside(text: str) -> bool:
    return _WRITES_OUTSIDE.search(text) is not None


def hint_at_files_outside() -> list[str]:
    """At most one, naming a few files that no caller gets."""
    files: list[str] = []
    # Without a tree of its own, a guest can write nowhere else.
    for folder, folders, names in os.walk("/") if os.path.isdir("/.tree") else ():
        folders[:] = [name for name in folders if os.path.join(folder, name) not in _NOT_SEARCHED]
        files += [os.path.join(folder, name) for name in names]
    more = f" and {len(files) - MOST_NOTES} more" if len(files) > MOST_NOTES else ""
    texts = ", ".join(map(repr, sorted(files)[:MOST_NOTES]))
    return [f"only files in /mnt/data, the working directory, are returned, not {texts}{more}"] if files else []


def unmade_calls(habits: Habits) -> list[str]:
    """Calls that the program wrote and reached, and that nothing awaited or used."""
    calls = list(habits.unmade)
    if habits.has_pending:
        # To look at every object of the interpreter is slow: only for programs that may have left a call unmade.
        calls += pending_call.unmade()
    return describe_calls(calls)


# ----------------------------------------------------------------------------------------------------
# An exception as the program's author should read it: their lines only, no carets.

MOST_FRAMES = 50
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


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
        report, message = describe_briefly(error)
    return _neutral(report).rstrip("\n"), _neutral(message).rstrip("\n")


def describe_briefly(error: BaseException) -> tuple[str, str]:
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
    lines = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if code.co_filename == FILENAME:
            lines.append(f'  File "{FILENAME}", line {tb.tb_lineno}, in {code.co_name}\n')
        tb = tb.tb_next
    return "".join(["Traceback (most recent call last):\n", *lines[-MOST_FRAMES:], message]), message


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


def _clean(whole: traceback.TracebackException, visited: set[int]) -> bool:
    """Keep the program's own frames, here and in causes; false if it has none."""
    if id(whole) in visited:
        return False
    visited.add(id(whole))
    folder = os.getcwd() + os.sep
    frames = [
        # A new summary without columns: the carets of 3.11 cost a model tokens and tell it little.
        traceback.FrameSummary(frame.filename, frame.lineno, _name(frame), lookup_line=True)
        for frame in whole.stack
        if frame.filename == FILENAME or frame.filename.startswith(folder)
    ]
    whole.stack = traceback.StackSummary.from_list(frames)
    if whole.__cause__ is not None and not _clean(whole.__cause__, visited):
        whole.__cause__ = None
        whole.__suppress_context__ = False
    if whole.__context__ is not None and not _clean(whole.__context__, visited):
        whole.__context__ = None
    for member in whole.exceptions or ():
        _clean(member, visited)
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
