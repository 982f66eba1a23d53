"""API reference: `docs/api.md`, written from the signatures and docstrings of the public packages.

    python design/api.py            write the page
    python design/api.py --check    exit 1 if it is not up to date

The source is read, never imported: no extra has to be installed. A package lists its names in `__all__`; where a name
comes from is in its imports, those for type checkers among them.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "api.md"
PACKAGES: Final = (
    "toolfold",
    "toolfold.batches",
    "toolfold.config",
    "toolfold.engines",
    "toolfold.errors",
    "toolfold.events",
    "toolfold.frameworks",
    "toolfold.gem",
    "toolfold.ledger",
    "toolfold.mcp",
    "toolfold.orchestrator",
    "toolfold.programs",
    "toolfold.pydantic_ai",
    "toolfold.rollouts",
    "toolfold.testing",
    "toolfold.tools",
)
"""All that people may import from; anything else may change at any time."""
_HEAD: Final = """\
# Python API

Every name that you can import. Other modules and names may change at any time; these change as the
[upgrade notes](upgrading.md) say. This page is written from the docstrings by `python design/api.py`.
"""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = Function | ast.ClassDef | ast.Assign | ast.AnnAssign


def main() -> int:
    """Write the page, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if the page is not up to date")
    text = api_page()
    if not parser.parse_args().check:
        PAGE.write_text(text, "utf-8")
        return 0
    if PAGE.read_text("utf-8") == text:
        return 0
    print("docs/api.md is not up to date; run 'python design/api.py'", file=sys.stderr)
    return 1


def api_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    places: dict[tuple[str, str], str] = {}
    for package in PACKAGES:
        parts.append(f"## {package}\n\n{_prose(ast.get_docstring(_tree(package)) or '')}\n")
        for name in public_names(package):
            home, node, text = definition(package, name)
            first = places.setdefault((home, name), package)
            is_new = first == package
            entry = _entry(home, node, text) if is_new else f"The same as `{first}.{name}`.\n"
            parts.append(f"### {package}.{name}\n\n{entry}")
    return "\n".join(parts)


def public_names(package: str) -> list[str]:
    """What `__all__` lists."""
    for node in _tree(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise LookupError(f"{package} has no __all__")


def undocumented() -> list[str]:
    """Public names, and fields and methods of public classes, without a docstring."""
    names = []
    for package in PACKAGES:
        for name in public_names(package):
            _, node, text = definition(package, name)
            if not text:
                names.append(f"{package}.{name}")
            if isinstance(node, ast.ClassDef) and name in DOCUMENTED_FIELDS:
                names += [f"{package}.{name}.{field}" for field, words in _fields(node) if not words]
    return names


DOCUMENTED_FIELDS: Final = ("Outcome", "Limits", "CallRecord", "Policy")
"""Classes that people read field by field: each has its words."""


# --- where a name is defined ---------------------------------------------------------------------


def definition(module: str, name: str) -> tuple[str, Definition, str]:
    """The module that defines a name, its statement, and its docstring."""
    body = _tree(module).body
    for index, node in enumerate(body):
        if _defines(node, name) and not (isinstance(node, Function) and _is_overload(node)):
            assert isinstance(node, Definition)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                return module, node, ast.get_docstring(node) or ""
            return module, node, _words_under(body, index)
    for child in ast.walk(_tree(module)):
        if isinstance(child, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in child.names):
            assert child.module is not None
            return definition(child.module, name)
    raise LookupError(f"{module} has no {name!r}")


def _defines(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name == name
        case ast.Assign(targets=[ast.Name(id=target)]) | ast.AnnAssign(target=ast.Name(id=target)):
            return target == name
    return False


def _words_under(body: list[ast.stmt], index: int) -> str:
    """The text under a field or a constant, which says what it is."""
    match body[index + 1 : index + 2]:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return " ".join(text.split())
    return ""


@cache
def _tree(module: str) -> ast.Module:
    base = ROOT.joinpath("src", *module.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return ast.parse(path.read_text("utf-8"))


# --- one entry -----------------------------------------------------------------------------------


def _entry(home: str, node: Definition, text: str) -> str:
    parts = [_block(_signature(node))]
    if text:
        parts.append(_prose(text))
    if isinstance(node, ast.ClassDef):
        classes = [node, *_private_bases(home, node)]
        fields = [f"- `{field}`{': ' + words if words else ''}" for part in classes for field, words in _fields(part)]
        methods = {method.name: method for part in reversed(classes) for method in _methods(part)}
        parts += ["\n".join(fields)] if fields else []
        parts += [part for name in sorted(methods) for part in _method(methods[name])]
    return "\n\n".join(parts) + "\n"


def _block(code: str) -> str:
    """Not `python`: what a page shows under that word is run by a test."""
    return f"```py\n{code}\n```"


def _signature(node: Definition) -> str:
    match node:
        case ast.ClassDef():
            bases = ", ".join(map(ast.unparse, node.bases))
            init = next((child for child in _functions(node) if child.name == "__init__"), None)
            head = f"class {node.name}({bases})" if bases else f"class {node.name}"
            return head if init is None else f"{head}\n{_call(node.name, init, is_method=True)}"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            return f"{word} {_call(node.name, node)}"
    return ast.unparse(node)


def _call(name: str, node: Function, *, is_method: bool = False) -> str:
    """With each argument in a line of its own where one line is too long for a page."""
    arguments = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(arguments, Function)
    if is_method:
        (arguments.args.posonlyargs or arguments.args.args)[:1] = []
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    # Spaces around the default of an annotated argument, which `unparse` leaves out.
    parts = [re.sub(r"(?<=[^=!<>])=(?!=)", " = ", part, count=1) for part in _split(ast.unparse(arguments.args))]
    text = f"{name}({', '.join(parts)}){returns}"
    return text if len(text) <= _WIDTH else f"{name}(\n{''.join(f'    {part},{chr(10)}' for part in parts)}){returns}"


_WIDTH: Final = 100


def _split(text: str) -> Iterator[str]:
    """At the commas that separate arguments, not at those inside of them."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for index, child in enumerate(node.body):
        if isinstance(child, ast.AnnAssign) and not ast.unparse(child.target).startswith("_"):
            yield ast.unparse(child), _words_under(node.body, index)


def _private_bases(home: str, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """Classes of this package that only their subclasses are known by: what they have is the subclass's."""
    public = {name for package in PACKAGES for name in public_names(package)}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id not in public:
            try:
                place, parent, _ = definition(home, base.id)
            except (LookupError, OSError):  # of another package, or built in
                continue
            if isinstance(parent, ast.ClassDef):
                yield parent
                yield from _private_bases(place, parent)


def _functions(node: ast.ClassDef) -> list[Function]:
    return [child for child in node.body if isinstance(child, Function) and not _is_overload(child)]


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    yield from (child for child in _functions(node) if not child.name.startswith("_"))


def _method(node: Function) -> Iterator[str]:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    words = _prose(ast.get_docstring(node) or "")
    if "property" in decorators:
        returns = f": {ast.unparse(node.returns)}" if node.returns is not None else ""
        yield f"#### {node.name}\n\n{_block(node.name + returns)}"
    else:
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        call = _call(node.name, node, is_method="staticmethod" not in decorators)
        yield f"#### {node.name}()\n\n{_block(word + ' ' + call)}"
    if words:
        yield words


def _is_overload(node: Function) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


# --- docstrings ----------------------------------------------------------------------------------


def _prose(text: str) -> str:
    """A docstring as Markdown: each argument and each exception of its sections becomes an item."""
    lines: list[str] = []
    in_section = False
    for line in text.splitlines():
        if line in ("Args:", "Raises:", "Returns:"):
            lines += [f"**{line[:-1]}**", ""]
            in_section = True
        elif in_section and (match := re.match(r"    (\w+): (.*)", line)):
            lines.append(f"- `{match[1]}`: {match[2]}")
        elif in_section and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            in_section = in_section and not line.strip()
            lines.append(line)
    return "\n".join(lines).strip().replace("```python", "```py")


if __name__ == "__main__":
    sys.exit(main())
