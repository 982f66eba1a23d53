"""Calls that cannot work here, whatever their arguments: nobody types, no network, no other process, no display."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from toolfold.program.arguments import Fault
from toolfold.program.imports import blocked_reason
from toolfold.program.index import ToolIndex
from toolfold.program.reader import Reader
from toolfold.program.reading.facts import Use
from toolfold_guest.offline import LIBRARIES

_CALLS: Final[dict[str, Sequence[str]]] = {
    "subprocess": ("run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    "os": ("system", "popen", "fork", "forkpty", "execv", "execvp", "posix_spawn", "spawnlp", "spawnv"),
    "urllib.request": ("urlopen", "urlretrieve"),
    "socket": ("socket", "create_connection", "create_server", "getaddrinfo", "gethostbyname"),
    "smtplib": ("SMTP", "SMTP_SSL"),
    "ftplib": ("FTP", "FTP_TLS"),
    "imaplib": ("IMAP4", "IMAP4_SSL"),
    "poplib": ("POP3", "POP3_SSL"),
    "multiprocessing": ("Manager", "Pool"),
    "concurrent.futures": ("ProcessPoolExecutor",),
    "pty": ("fork", "spawn"),
    **{name: library.calls.split() for name, library in LIBRARIES.items() if library.calls},
    "tkinter": ("Tk", "mainloop"),
    "turtle": (
        "Turtle", "Screen", "setup", "forward", "fd", "backward", "left", "lt", "right", "rt", "goto", "circle",
        "color", "pencolor", "penup", "pendown", "speed", "begin_fill", "done", "mainloop", "bgcolor", "title",
    ),
    "curses": ("initscr", "wrapper"),
}  # fmt: skip
"""What a module cannot do here; the rest of it works."""
_MODULE_OF: Final = {f"{module}.{name}": module for module, names in _CALLS.items() for name in names}
_MODULES: Final = frozenset(module.partition(".")[0] for module in _CALLS)
_MOCKS: Final = frozenset({"mock", "unittest", "pytest", "responses"})


def input_faults(reader: Reader, runs: Callable[[Use], bool]) -> Iterator[Fault]:
    """Calls of `input`, in no order; `runs` tells which code is run."""
    for use in reader.names.loads.get("input", ()):
        is_called = any(call.node.func is use.node for call in reader.calls)
        if is_called and use.scope.find("input") is None and runs(use):
            text = "'input' cannot work here: nobody is there to type; write the value into the program"
            yield Fault("input", text, use.node)


def outward_faults(reader: Reader, index: ToolIndex, comes_to: Callable[[Use], bool]) -> Iterator[Fault]:
    """Calls for the network, a process or a display, in no order, unless the program may have replaced them."""
    used = reader.names.modules | {"os"} if "os" in reader.names.loads else reader.names.modules
    if _MODULES.isdisjoint(used) or not _MOCKS.isdisjoint(reader.names.modules):
        return
    for use in reader.calls:
        path = _path(use)
        module = _MODULE_OF.get(path or "")
        if (
            path is None
            or module is None
            or path.rpartition(".")[2] in reader.names.set_attributes
            or not comes_to(use)
        ):
            continue
        reason = blocked_reason(module, index)
        if reason is not None:
            yield Fault("import", reason.replace(repr(module), repr(path), 1), use.node)


def _path(use: Use) -> str | None:
    """`urllib.request.urlopen`, however it was imported."""
    names: list[str] = []
    node = use.node.func
    while node.__class__ is ast.Attribute:
        names.append(node.attr)
        node = node.value
    if node.__class__ is not ast.Name or not (names or use.scope.find(node.id)):
        return None
    owner = use.scope.find(node.id)
    root = node.id if owner is None else owner.bound[node.id].replace(":", ".")
    return ".".join((root, *reversed(names))) if root else None
