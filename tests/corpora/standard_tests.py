"""CPython's own tests inside a program: one program for each class, and its result test by test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.corpora.case import Case
from tests.corpora.docstrings import STANDARD

FOLDER: Final = STANDARD / "test"
"""Some distributions leave it out."""
_TEXT: Final = """\
import importlib
import unittest

module = importlib.import_module({module!r})
suite = unittest.defaultTestLoader.loadTestsFromName({name!r}, module)
result = unittest.TestResult()
suite.run(result)
print(result.testsRun)
for kind in ("failures", "errors", "skipped"):
    print(kind, sorted(str(test) for test, _ in getattr(result, kind)))
"""
_OTHERS: Final = (
    "socket", "ssl", "subprocess", "multiprocessing", "fork", "tk", "ttk", "idle", "gdb", "asyncio", "regrtest",
    "support", "faulthandler", "signal", "thread", "venv", "ensurepip", "capi", "embed", "cmd_line", "script_helper",
    "smtp", "ftp", "imap", "poplib", "nntp", "telnet", "xmlrpc", "http", "url", "audit", "posix", "test_os", "mailbox",
    "distutils", "lib2to3", "tools", "peg_generator", "c_", "interpreters", "perf", "repl", "pdb", "bdb", "trace",
    "resource", "pty", "tty", "curses", "readline", "ioctl", "fcntl", "epoll", "kqueue", "selectors", "dbm", "gc",
    "bigmem", "bigaddrspace", "unparse", "zipfile64", "largefile", "tarfile", "shutil", "tempfile", "pathlib", "glob",
    "site", "sys", "pydoc", "doctest", "crashers", "warnings", "import", "zipimport", "runpy", "compileall", "cprofile",
    "concurrent", "queue", "sched", "time", "locale", "wait", "openpty", "getpass", "grp", "pwd", "spwd", "ossaudio",
    "decimal", "zoneinfo", "email", "codecs", "unicodedata", "io", "mmap", "dis", "code", "peepholer", "startfile",
    "logging", "webbrowser", "wsgiref", "wmi", "winreg", "winsound", "msvcrt", "launcher", "macos", "frozen", "pyclbr",
)  # fmt: skip
"""Parts of names of tests about the interpreter's own process, the machine or the network."""


def cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("test_*.py")):
        if not any(part in path.stem.removeprefix("test_") or path.stem == part for part in _OTHERS):
            yield from of_module(path.stem)


def of_module(name: str) -> Iterator[Case]:
    try:
        tree = ast.parse((FOLDER / f"{name}.py").read_bytes())
    except SyntaxError:
        return
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any("Test" in ast.unparse(base) for base in node.bases):
            text = _TEXT.format(module=f"test.{name}", name=node.name)
            yield Case(corpus="CPython's tests", name=f"{name}.{node.name}", text=text)
