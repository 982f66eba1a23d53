"""A program's end as the interpreter makes it: exit handlers, finalizers, files flushed and closed.

A guest leaves with `os._exit`, which does nothing of this. Only programs whose text speaks of something that could be
left behind get it, for to let go of a program's data takes time, too.
"""

import atexit
import gc
import io
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

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
    for found in gc.get_objects():
        # By type, not by what it says of itself: the program's own objects must not be asked.
        if issubclass(type(found), io.IOBase) and not _is_ours(found):
            _flush(found)
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
    return file is sys.stdout or file is sys.stderr or type(file).__module__ == "toolfold_guest.output"


def _flush(file: Any) -> None:
    try:
        if not file.closed and file.writable():
            file.flush()
    except Exception:  # noqa: BLE001  # a file whose disk is full, or a class of the program's own
        return
