"""Imports that cannot work in the sandbox, and what to use instead.

Only imports that every run of the program comes to: one inside `try`, `if` or a function
may never happen, or may be expected to fail. A module of the standard library can always be
imported, and so can libraries for the network where the engine has placeholders; what they cannot do fails at the call.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Final

from toolfold.models import InstalledSet
from toolfold.program.arguments import Fault
from toolfold.program.index import ToolIndex
from toolfold.program.package_names import named_installed, package_of
from toolfold_guest.offline import LIBRARIES, WORKERS, library_of
from toolfold_guest.reserved import NOTEBOOK_MODULES

_NETWORK: Final = frozenset(
    {
        "ftplib", "http.client", "http.server", "imaplib", "nntplib", "poplib", "smtplib", "socket", "socketserver",
        "telnetlib", "urllib.request", "wsgiref", "xmlrpc",
    }
) | LIBRARIES.keys()  # fmt: skip
_PROCESS: Final = frozenset({"os", "pexpect", "pty", "sh", "subprocess"})
_WORKERS: Final = frozenset({"concurrent.futures", "multiprocessing"})
_DISPLAY: Final = frozenset({"curses", "idlelib", "pygame", "tkinter", "turtle", "turtledemo", "webbrowser"})
_NEED_TK: Final = frozenset({"idlelib", "tkinter", "turtle", "turtledemo"})
"""Some builds of Python cannot even import these."""
_MODULES_OF: Final = {
    "scikit_learn": "sklearn", "opencv_python": "cv2", "opencv_python_headless": "cv2", "beautifulsoup4": "bs4",
    "pillow": "PIL", "pyyaml": "yaml", "python_dateutil": "dateutil", "python_docx": "docx", "attrs": "attr",
    "pymupdf": "fitz", "ipython": "IPython", "nest_asyncio": "nest_asyncio", "python_dotenv": "dotenv",
}  # fmt: skip
"""Packages whose module is called otherwise."""
_OF_DATA: Final = frozenset({"matplotlib", "mpmath", "numpy", "openpyxl", "pandas", "scipy", "sklearn", "sympy"})
"""Modules of the extra `data`."""
_ALWAYS: Final = frozenset({"tools", "__main__"}) | NOTEBOOK_MODULES


def import_faults(
    tree: ast.Module, index: ToolIndex, installed: Container[str] | None, sets: Sequence[InstalledSet] | None = None
) -> Iterator[Fault]:
    """Unguarded imports at the top level that cannot work, in the order of the text."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                reason = _reason(alias.name, index, installed, sets)
                if reason is not None:
                    yield Fault("import", reason, alias)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            reason = _reason(node.module, index, installed, sets)
            if reason is not None:
                yield Fault("import", _of_tools(node, index) or reason, node)


def _of_tools(node: ast.ImportFrom, index: ToolIndex) -> str | None:
    """What to write where a program imports tools from a module that there is not."""
    names = [alias.name for alias in node.names]
    if not all(name in index.names for name in names):
        return None
    return f"no module {node.module!r}; write 'from tools import {', '.join(names)}', or call them without an import"


def missing_package(
    package: str, index: ToolIndex, installed: Container[str] | None, sets: Sequence[InstalledSet] | None = None
) -> str | None:
    """Why a package that the program wants to have installed is not there; `None` if it is, or nobody knows."""
    name = package.lower().replace("-", "_").replace(".", "_")
    module = _MODULES_OF.get(name, name)
    return None if installed is None or package in installed else _reason(module, index, installed, sets)


def _reason(
    module: str, index: ToolIndex, installed: Container[str] | None, sets: Sequence[InstalledSet] | None
) -> str | None:
    blocked = blocked_reason(module, index)
    first = module.split(".", 1)[0]
    if first in sys.stdlib_module_names and (first not in _NEED_TK or _has_tk()):
        return None
    if library_of(module) and (installed is None or first in installed):
        return None
    if blocked is not None or installed is None or first in _ALWAYS or first in installed:
        return blocked
    return _not_installed(first, index, installed, sets)


def _not_installed(
    module: str, index: ToolIndex, installed: Container[str], sets: Sequence[InstalledSet] | None
) -> str:
    """What to use instead, for the model; and what to add, for the operator who reads along."""
    package, there = package_of(module), named_installed(installed, sets or ())
    usual = "" if package == module else f" (package {package!r})"
    use = f"use the standard library{_or_a_tool(index)}"
    has = f"; installed are {there}" if there else ""
    extra = f"install the extra 'data' of toolfold, or add {package!r}" if module in _OF_DATA else f"add {package!r}"
    add = "" if sets is None else f"; the operator can {extra} to libraries.packages"
    return f"{module!r}{usual} is not installed here; {use}{has}{add}"


@cache
def _has_tk() -> bool:
    return find_spec("_tkinter") is not None


def blocked_reason(module: str, index: ToolIndex) -> str | None:
    """Why what a module is for cannot work here; `None` for most."""
    if _is_within(module, _NETWORK):
        return f"{module!r} cannot work here: there is no network{_call_a_tool(index)}"
    if _is_within(module, _PROCESS):
        return f"{module!r} cannot work here: no process can be started{_call_a_tool(index)}"
    if _is_within(module, _WORKERS):
        return f"{module!r} cannot work here: {WORKERS}"
    if _is_within(module, _DISPLAY):
        return f"{module!r} cannot work here: there is no display; print, or save a figure with matplotlib"
    return None


def _is_within(module: str, modules: frozenset[str]) -> bool:
    while module:
        if module in modules:
            return True
        module = module.rpartition(".")[0]
    return False


def _call_a_tool(index: ToolIndex) -> str:
    return f"; call a tool instead: {index.some_names()}" if index.names else ", and this program has no tools"


def _or_a_tool(index: ToolIndex) -> str:
    return f" or call a tool: {index.some_names()}" if index.names else ""
