"""Tools as Python text: for a prompt, for `help` in a program, as modules and as a tree of files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from toolfold.models import ToolSpec
from toolfold.program.records import TYPING_NAMES
from toolfold.program.stub import Stub, function_name, identifier, stub_of
from toolfold.program.typing_text import Types
from toolfold.program.words import docstring

Body: TypeAlias = Callable[[Stub], str]
"""The statements of a stub's body, not indented. For arguments left out it gets `NOT_GIVEN`."""

WRITTEN_BY: Final = "# Written by toolfold; changes are lost when it is written again."
_WORDS_ASKED_FOR: Final = ("help", "inspect", "pydoc", "signature", "getdoc", "__doc__")
_ASKS_FOR_WORDS: Final = re.compile(rf"\b(?:{'|'.join(_WORDS_ASKED_FOR)}|__signature__)\b")


def signature(spec: ToolSpec) -> str:
    """One `async def` with its docstring; `prompt_text` also has the records that it names."""
    return stub_of(spec, Types()).source()


def prompt_text(specs: Iterable[ToolSpec], *, budget_characters: int | None = None) -> str:
    """All tools as one text for a prompt; records that several tools share stand in it once.

    Over budget, the words on arguments go first, then signatures, the last ones first: what is
    left are names, and a line that tells how to find the others.
    """
    tools = list(specs)
    text = _joined(tools, Stub.source)
    if budget_characters is None or len(text) <= budget_characters:
        return text
    text = _joined(tools, Stub.short_source)
    return text if len(text) <= budget_characters else _within(tools, budget_characters)


def module_text(specs: Sequence[ToolSpec], *, body: Body | None = None, imports: str = "") -> str:
    """One module with these tools as functions.

    Args:
        specs: The tools.
        body: Writes the body of each function; without it, calling one raises `NotImplementedError`.
        imports: Import statements that the bodies need.
    """
    types = Types()
    # First all names: no record may be called like a function.
    types.taken.update(function_name(spec) for spec in specs)
    stubs = [stub_of(spec, types) for spec in specs]
    parts = [*types.declarations.values(), *(_function(stub, body) for stub in stubs)]
    used = {word for part in parts for word in re.findall(r"\w+", part)}
    needed = [name for name in TYPING_NAMES if name in used or (name == "Any" and body is not None)]
    head = [WRITTEN_BY, "from __future__ import annotations"]
    if needed:
        head.append(f"from typing import {', '.join(needed)}")
    head += [imports] if imports else []
    if body is not None:
        head.append("NOT_GIVEN: Any = ...")
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(parts) + "\n"


def tree(specs: Sequence[ToolSpec], *, body: Body | None = None, imports: str = "") -> dict[str, str]:
    """Text by path: `tools/<domain>/<tool>.py`, and an `__init__.py` in each folder that has all names."""
    folders: dict[str, dict[str, str]] = {"tools": {}}
    domains = {identifier(spec.domain) for spec in specs if spec.domain}
    files: dict[str, str] = {}
    shorts: dict[str, dict[str, str]] = {}
    for spec in specs:
        folder = f"tools/{identifier(spec.domain)}" if spec.domain else "tools"
        modules = folders.setdefault(folder, {})
        stem = _free_stem(function_name(spec), modules, domains if folder == "tools" else ())
        modules[stem] = function_name(spec)
        if spec.domain and spec.short_name:
            shorts.setdefault(folder, {}).setdefault(identifier(spec.short_name), stem)
        files[f"{folder}/{stem}.py"] = module_text([spec], body=body, imports=imports)
    for folder, modules in folders.items():
        lines = [f"from .{stem} import {name} as {name}" for stem, name in sorted(modules.items())]
        if folder == "tools":
            lines += _from_domains(folders)
        taken = {*modules, *modules.values()}
        for short, stem in sorted(shorts.get(folder, {}).items()):
            lines += [f"from .{stem} import {modules[stem]} as {short}"] if short not in taken else []
        files[f"{folder}/__init__.py"] = "\n".join([WRITTEN_BY, "", *lines, ""])
    return files


def write_tree(specs: Sequence[ToolSpec], folder: Path, *, body: Body | None = None, imports: str = "") -> list[Path]:
    """Write `tree` below `folder`, and remove what an earlier one wrote there of tools that are gone."""
    files = {folder / name: text for name, text in tree(specs, body=body, imports=imports).items()}
    for old in (folder / "tools").rglob("*.py"):
        if old not in files and old.is_file() and old.read_bytes().startswith(WRITTEN_BY.encode()):
            old.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


def words_for(text: str, specs: Iterable[ToolSpec]) -> dict[str, tuple[str, str]]:
    """Signature and docstring by tool name, for a program that looks at them; for any other, nothing.

    Only tools that it names, and only where it mentions `help`, `inspect` or the like: no other
    program can tell the difference, and reading schemas costs more than a run.
    """
    if not asks_for_words(text):
        return {}
    return {
        spec.name: _words(spec) for spec in specs if any(name in text for name in (spec.python_name, *spec.aliases))
    }


def asks_for_words(text: str) -> bool:
    """Whether a program may look at the signature or the docstring of a tool."""
    return any(map(text.__contains__, _WORDS_ASKED_FOR)) and _ASKS_FOR_WORDS.search(text) is not None


def _words(spec: ToolSpec) -> tuple[str, str]:
    types = Types()
    stub = stub_of(spec, types)
    doc = (
        stub.doc() if spec.description else f"\n{stub.doc()}"
    )  # else `help` takes its first line's indent for the text's
    parts = [doc, *types.declarations.values()]
    return f"({', '.join(stub.arguments())}) -> {stub.returns}", "\n\n".join(part for part in parts if part)


def _joined(specs: Iterable[ToolSpec], write: Callable[[Stub], str]) -> str:
    types = Types({function_name(spec) for spec in specs})
    parts: list[str] = []
    for spec in specs:
        before = len(types.declarations)
        source = write(stub_of(spec, types))
        parts += [*list(types.declarations.values())[before:], source]
    return "\n\n".join(parts) + "\n" * bool(parts)


def _within(specs: Sequence[ToolSpec], budget: int) -> str:
    """As many signatures as fit beside the lines that tell of the others."""

    def text(count: int) -> str:
        shown = _joined(specs[:count], Stub.short_source)
        return shown + _others(specs[count:], budget - len(shown))

    low, high = 0, len(specs)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(text(middle)) <= budget else (low, middle - 1)
    return text(low)


def _others(specs: Sequence[ToolSpec], room: int) -> str:
    names: list[str] = []
    find = 'find them with: await search_tools("what you need")'
    for spec in specs:
        if len(", ".join([*names, spec.python_name])) + len(find) + 40 > room:
            break
        names.append(spec.python_name)
    hidden = len(specs) - len(names)
    lines = [f"# also there: {', '.join(names)}"] if names else []
    return "".join(f"{line}\n" for line in [*lines, *([f"# and {hidden} more; {find}"] if hidden else [])])


def _function(stub: Stub, body: Body | None) -> str:
    if body is None:
        head, statements = stub.head(), "raise NotImplementedError"
    else:
        head, statements = stub.head("NOT_GIVEN"), body(stub)
    parts = [head, docstring(stub.doc()), *(f"    {line}" if line else "" for line in statements.splitlines())]
    return "\n".join(part for part in parts if part)


def _free_stem(name: str, modules: Iterable[str], domains: Iterable[str]) -> str:
    # Compared as file systems do that take `Get.py` and `get.py` for one.
    taken = {"__init__", *(one.casefold() for one in (*modules, *domains))}
    stem = name
    while stem.casefold() in taken:
        stem += "_"
    return stem


def _from_domains(folders: dict[str, dict[str, str]]) -> list[str]:
    """`from tools import get_users` works too, as it does in a program."""
    lines = []
    for folder, modules in sorted(folders.items()):
        if folder != "tools":
            domain = folder.removeprefix("tools/")
            # To a type checker, `__init__` of a package is its file.
            names = sorted(set(modules.values()) - {"__init__"})
            lines += [f"from .{domain} import {name} as {name}" for name in names]
    return lines
