"""Imports and calls that cannot work in the sandbox, and what to use instead.

Only imports that every run of the program comes to: one inside `try`, `if` or a function that is not
called may never happen, or may be expected to fail. A module of the standard library can always be
imported, and so can libraries for the network where the engine has placeholders; what they cannot do fails at the call.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from toolfold.models import InstalledSet
from toolfold.program.known_names import FACTS, ToolIndex
from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.reachability import Reach
from toolfold.program.syntax_facts import CATCHES_ATTRIBUTES, CATCHES_IMPORTS, CATCHES_KEYS, Kind
from toolfold_guest.shared.reserved_names import LIBRARIES, NOTEBOOK_MODULES, library_of

_NETWORK: Final = frozenset(
    {
        "ftplib", "http.client", "http.server", "imaplib", "nntplib", "poplib", "smtplib", "socket", "socketserver",
        "telnetlib", "urllib.request", "wsgiref", "xmlrpc",
    }
) | LIBRARIES.keys()  # fmt: skip
_PROCESS: Final = frozenset({"os", "pexpect", "pty", "sh", "subprocess"})
_DISPLAY: Final = frozenset({"curses", "idlelib", "pygame", "tkinter", "turtle", "turtledemo", "webbrowser"})
_BLOCKED: Final = (
    (_NETWORK, "there is no network", True),
    (_PROCESS, "no process can be started", True),
    (_DISPLAY, "there is no display; print, or save a figure with matplotlib", False),
)
"""Modules, why they cannot work, and whether a tool can do it instead."""
_NEED_TK: Final = frozenset({"idlelib", "tkinter", "turtle", "turtledemo"})
"""Some builds of Python cannot even import these."""
_OF_DATA: Final = frozenset(
    {
        "dateutil", "matplotlib", "mpmath", "numpy", "openpyxl", "pandas", "scipy", "seaborn", "sklearn", "sympy",
        "tabulate", "tqdm",
    }
)  # fmt: skip
"""Modules of the extra `data`."""
_ALWAYS: Final = frozenset({"tools", "__main__"}) | NOTEBOOK_MODULES


def import_faults(
    program: Analysis, installed: Container[str] | None, sets: Sequence[InstalledSet] | None
) -> Iterator[Fault]:
    """Imports that every run comes to and that cannot work: those at the top level first, then those in functions."""
    yield from _import_faults(program.tree.body, program.index, installed, sets)
    for use in program.reader.imports:
        if use.scope.kind is Kind.FUNCTION:
            fault = next(_import_faults([use.node], program.index, installed, sets), None)
            if fault is not None and program.runs(use, CATCHES_IMPORTS):
                yield fault


def _import_faults(
    nodes: Iterable[ast.stmt], index: ToolIndex, installed: Container[str] | None, sets: Sequence[InstalledSet] | None
) -> Iterator[Fault]:
    for node in nodes:
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
    """Hint for a program that imports tools from a module that does not exist."""
    names = [alias.name for alias in node.names]
    if not all(name in index.names for name in names):
        return None
    return f"no module {node.module!r}; write 'from tools import {', '.join(names)}', or call them without an import"


def missing_package(
    package: str, index: ToolIndex, installed: Container[str] | None, sets: Sequence[InstalledSet] | None = None
) -> str | None:
    """Why a package that the program wants to have installed is not there; `None` if it is, or nobody knows."""
    name = package.lower()
    module = _MODULES_OF.get(name.replace("_", "-"), name.replace("-", "_").replace(".", "_"))
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
    """Alternatives for the model, and packages to add for the operator."""
    package, library_names = package_of(module), list_installed(installed, sets or ())
    usual = "" if package == module else f" (package {package!r})"
    use = "use the standard library" + (f" or call a tool: {index.some_names()}" if index.names else "")
    has = f"; installed are {library_names}" if library_names else ""
    extra = f"install the extra 'data' of toolfold, or add {package!r}" if module in _OF_DATA else f"add {package!r}"
    add = "" if sets is None else f"; the operator can {extra} to libraries.packages"
    return f"{module!r}{usual} is not installed here; {use}{has}{add}"


@cache
def _has_tk() -> bool:
    return find_spec("_tkinter") is not None


def blocked_reason(module: str, index: ToolIndex) -> str | None:
    """Why what a module is for cannot work here; `None` for most."""
    for modules, reason, is_for_tools in _BLOCKED:
        if _is_within(module, modules):
            rest = f"; call a tool instead: {index.some_names()}" if index.names else ", and this program has no tools"
            return f"{module!r} cannot work here: {reason}{rest if is_for_tools else ''}"
    return None


def _is_within(module: str, modules: frozenset[str]) -> bool:
    while module and module not in modules:
        module = module.rpartition(".")[0]
    return bool(module)


# ----------------------------------------------------------------------------------------------------
# What a module is called on the package index, where that is another name; and what of the usual ones is installed.

_MODULES_OF: Final = {
    **{package: module for module, package in FACTS.packages.items()},
    "opencv-python-headless": "cv2", "ipython": "IPython",
}  # fmt: skip

_USUAL: Final = (
    "numpy", "pandas", "matplotlib", "scipy", "sklearn", "seaborn", "statsmodels", "plotly", "sympy", "openpyxl",
    "xlsxwriter", "tabulate",
)  # fmt: skip
_MOST_NAMED: Final = 12


def package_of(module: str) -> str:
    """The usual name on the index."""
    return FACTS.packages.get(module, module.replace("_", "-").lower())


def list_installed(installed: Container[str], sets: Sequence[InstalledSet]) -> str:
    """The libraries that there are, for a message; the operator's own first."""
    names = list(dict.fromkeys(_names(installed, sets)))
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def _names(installed: Container[str], sets: Iterable[InstalledSet]) -> Iterator[str]:
    for library_set in sets:
        yield from library_set.offers
    yield from (name for name in _USUAL if name in installed)


# ----------------------------------------------------------------------------------------------------
# Calls that cannot work here, whatever their arguments: nobody types, no network, no other process, no display.

_CALLS: Final = FACTS.outward_calls | {name: library.calls for name, library in LIBRARIES.items() if library.calls}
_MODULE_OF: Final = {f"{module}.{name}": module for module, names in _CALLS.items() for name in names.split()}
_MODULES: Final = frozenset(module.partition(".")[0] for module in _CALLS)
_STDIN_CHANGES: Final = frozenset({"stdin", "input", "readline"})
_MOCKS: Final = frozenset({"mock", "unittest", "pytest", "responses"})


def input_faults(program: Analysis) -> Iterator[Fault]:
    """Calls of `input`, in no order, unless something else may be read."""
    names = program.names
    if not _STDIN_CHANGES.isdisjoint(names.set_attributes) or "dup2" in names.attributes or _MOCKS & names.modules:
        return
    for use in program.names.loads.get("input", ()):
        is_called = any(call.node.func is use.node for call in program.reader.calls)
        if is_called and use.scope.find("input") is None and program.runs(use):
            text = "'input' cannot work here: nobody is there to type; write the value into the program"
            yield Fault("input", text, use.node)


def argv_faults(program: Analysis) -> Iterator[Fault]:
    """`sys.argv[1]` in a program, which has no command line; unless it fills the list itself."""
    uses = program.names.attributes.get("argv", ())
    if not uses:
        return
    attributes = [use for uses in program.names.attributes.values() for use in uses]
    is_changed = "argv" in program.names.set_attributes or any(
        isinstance(use.node.value, ast.Attribute) and use.node.value.attr == "argv" for use in attributes
    )
    for use in () if is_changed else uses:
        match program.outer(use.node):
            case ast.Subscript(ctx=ast.Load(), slice=ast.Constant(value=int(position))) if position > 0:
                if program.runs(use, CATCHES_KEYS):
                    text = f"'sys.argv[{position}]' does not exist: a program has no arguments; write the value into it"
                    yield Fault("input", text, use.node)


def outward_faults(program: Analysis) -> Iterator[Fault]:
    """Calls for the network, a process or a display, in no order, unless the program may have replaced them."""
    used = program.names.modules | {"os"} if "os" in program.names.loads else program.names.modules
    if _MODULES.isdisjoint(used) or not _MOCKS.isdisjoint(program.names.modules):
        return
    for use in program.reader.calls:
        path = program.path_of(use.node.func, use.scope)
        module = _MODULE_OF.get(path)
        if (
            module is not None
            and path.rpartition(".")[2] not in program.names.set_attributes
            and program.reach(use) is Reach.CERTAIN
        ):
            reason = blocked_reason(module, program.index)
            if reason is not None:
                yield Fault("import", reason.replace(repr(module), repr(path), 1), use.node)


# ----------------------------------------------------------------------------------------------------
# Names that modules of the standard library do not have. Programs run on the Python that this is.

_LOOKED_INTO: Final = frozenset(" ".join(FACTS.quiet_modules).split())
_CLOSE: Final = 0.7


def library_faults(program: Analysis) -> Iterator[Fault]:
    """Attributes and imports of names that a module or class of the standard library lacks, in no order."""
    names = program.names
    if not names.modules.isdisjoint(_MOCKS):
        return
    presets = program.presets
    for use in names.attribute_uses:
        owner, path = use.scope.find(use.node.value.id), use.node.value.id
        if owner is not None:
            path = owner.bound[path]
        elif path not in presets or path == "datetime":
            continue
        if path and use.node.attr not in names.set_attributes:
            message = _missing(path, use.node.attr)
            if message and program.runs(use, CATCHES_ATTRIBUTES):
                yield Fault("name", message, use.node)
    for use in program.reader.imports:
        node = use.node
        for alias in node.names if isinstance(node, ast.ImportFrom) and node.module and not node.level else ():
            message = _missing(node.module, alias.name) if alias.name != "*" else None
            if message and program.runs(use, CATCHES_IMPORTS):
                yield Fault("import", message, alias)


@cache
def _missing(path: str, name: str) -> str | None:
    """The words for a name that a module, or a class `module:Class`, lacks; `None` if it has it, or nobody knows."""
    module, _, member = path.partition(":")
    if module not in _LOOKED_INTO:
        return None
    owner: object = import_module(module)
    owner = getattr(owner, member, None) if member else owner
    if not isinstance(owner, type | ModuleType) or hasattr(owner, name):
        return None
    if isinstance(owner, ModuleType) and hasattr(owner, "__path__") and find_spec(f"{module}.{name}") is not None:
        return None
    place = member or module
    meant = FACTS.meant.get(f"{module}.{member}.{name}" if member else f"{module}.{name}")
    near = difflib.get_close_matches(name, [other for other in dir(owner) if other[0] != "_"], 1, _CLOSE)
    inner = getattr(owner, module, None)
    if meant is None and near:
        meant = f"{place}.{near[0]}"
    elif meant is None and hasattr(builtins, name):
        meant = name
    elif meant is None and isinstance(inner, type) and hasattr(inner, name):
        meant = f"{place}.{module}.{name}"
    rest = f"did you mean {meant!r}?" if meant else "write it out, or use another function"
    return f"{place} has no {name!r} in Python {sys.version_info[0]}.{sys.version_info[1]}; {rest}"
