"""What the code measures, package by package, and what is over the limits that the project has set itself.

    python design/measures.py                 a table, then whatever is over a limit
    python design/measures.py --check         the same, and exit 1 if anything is over a limit
    python design/measures.py --root DIR      another checkout, to compare two commits with one script

How each figure is counted:

* attributes: names set on `self` in a class's own methods, or the fields of a dataclass that can change;
* arguments: those of `__init__` without `self`, or the fields without a default of such a dataclass;
* complexity: McCabe's, as ruff counts it;
* comments: lines that hold a comment and nothing else, per line of code;
* lines of code: neither blank, nor comment, nor docstring;
* cycles: groups of modules that import each other, also inside functions; imports for types alone do not run;
* duplicates: pairs of places with six or more equal lines of code, imports and `__all__` apart, per 1,000 lines.

Three things are exempt, because their size is their purpose: values (frozen dataclasses), models of the configuration
(which set nothing on `self`), and the keywords of `Runtime`, which are the library's own settings.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grimp
from rich.console import Console
from rich.table import Table

PACKAGES: Final = ("toolfold", "toolfold_guest")
MOST_ATTRIBUTES: Final = 15
MOST_ARGUMENTS: Final = 8
MOST_COMPLEXITY: Final = 15
MOST_LINES: Final = 600
LEAST_COMMENTS: Final = {"toolfold.protocol": 0.05, "toolfold.engines.process": 0.05, "toolfold_guest": 0.05}
"""Where a reader cannot follow without being told why: the wire, the engine's host half, the jail and the guest."""
MOST_DUPLICATES: Final = 0.4
RUN: Final = 6
"""Equal lines that make a duplicate."""
EXEMPT_CONSTRUCTORS: Final = {"toolfold.runtime.Runtime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One class: how much it holds, and how much it wants."""

    name: str
    attributes: int
    arguments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file, read once."""

    name: str
    package: str
    lines: int
    code: tuple[str, ...]
    """Its lines of code, stripped."""
    comments: int
    classes: tuple[Measured, ...]
    complexity: int


def main() -> int:
    """Print the figures; 1 if `--check` was given and something is over a limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if anything is over a limit")
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout to measure"
    )
    given = parser.parse_args()
    source = given.root / "src"
    complexity = _complexity(source)
    files = sorted(path for package in PACKAGES for path in (source / package).rglob("*.py"))
    modules = [_module(path, source, complexity) for path in files]
    cycles, duplicates = _cycles(source), _duplicates(modules)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_table(modules))
    console.print(_sums(modules, cycles, duplicates), highlight=False)
    over = list(_over(modules, cycles, duplicates))
    for line in over:
        console.print(line, style="red", highlight=False, soft_wrap=True)
    return int(given.check and bool(over))


# --- what is told --------------------------------------------------------------------------------


def _table(modules: list[Module]) -> Table:
    table = Table(title="largest in each package")
    table.add_column("package")
    for head in ("modules", "lines of code", "module", "attributes", "arguments", "complexity", "comments"):
        table.add_column(head, justify="right")
    for package, inside in _by_package(modules).items():
        classes = [each for module in inside for each in module.classes]
        table.add_row(
            package,
            str(len(inside)),
            f"{_code(inside):,}",
            str(max(module.lines for module in inside)),
            str(max((each.attributes for each in classes), default=0)),
            str(max((each.arguments for each in classes), default=0)),
            str(max(module.complexity for module in inside)),
            f"{_share(inside):.2f}",
        )
    return table


def _sums(modules: list[Module], cycles: list[list[str]], duplicates: list[str]) -> str:
    return (
        f"{len(modules)} modules, {_code(modules):,} lines of code, {_share(modules):.3f} comment lines per line of "
        f"code, {len(cycles)} import cycles, {_per_thousand(modules, duplicates):.2f} duplicates per 1,000 lines"
    )


def _over(modules: list[Module], cycles: list[list[str]], duplicates: list[str]) -> Iterator[str]:
    for module in modules:
        if module.lines > MOST_LINES:
            yield f"{module.name}: {module.lines} lines, over {MOST_LINES}"
        if module.complexity > MOST_COMPLEXITY:
            yield f"{module.name}: complexity {module.complexity}, over {MOST_COMPLEXITY}"
        for each in module.classes:
            if each.attributes > MOST_ATTRIBUTES:
                yield f"{each.name}: {each.attributes} attributes, over {MOST_ATTRIBUTES}"
            if each.arguments > MOST_ARGUMENTS and each.name not in EXEMPT_CONSTRUCTORS:
                yield f"{each.name}: {each.arguments} constructor arguments, over {MOST_ARGUMENTS}"
    for package, least in LEAST_COMMENTS.items():
        inside = [module for module in modules if f"{module.name}.".startswith(f"{package}.")]
        if _share(inside) < least:
            yield f"{package}: {_share(inside):.3f} comment lines per line of code, under {least}"
    for cycle in cycles:
        yield f"import cycle: {', '.join(cycle)}"
    if _per_thousand(modules, duplicates) > MOST_DUPLICATES:
        yield from (f"duplicate: {places}" for places in duplicates)


def _by_package(modules: list[Module]) -> dict[str, list[Module]]:
    found = defaultdict[str, list[Module]](list)
    for module in modules:
        found[module.package].append(module)
    return dict(sorted(found.items()))


def _code(modules: list[Module]) -> int:
    return sum(len(module.code) for module in modules)


def _share(modules: list[Module]) -> float:
    return sum(module.comments for module in modules) / max(1, _code(modules))


def _per_thousand(modules: list[Module], duplicates: list[str]) -> float:
    return len(duplicates) * 1000 / max(1, _code(modules))


# --- one module ----------------------------------------------------------------------------------


def _module(path: Path, source: Path, complexity: dict[Path, int]) -> Module:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    parts = path.relative_to(source).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    comments, code = _lines(text, tree)
    return Module(
        name=name,
        package=".".join(parts[:-1]),
        lines=len(text.splitlines()),
        code=code,
        comments=comments,
        classes=tuple(_class(node, name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)),
        complexity=complexity.get(path, 1),
    )


def _lines(text: str, tree: ast.Module) -> tuple[int, tuple[str, ...]]:
    """How many lines are a comment and nothing else, and the lines of code."""
    lines = text.splitlines()
    dropped = {number for node in ast.walk(tree) if _is_docstring(node) for number in _rows(node)}
    held: set[int] = set()
    commented: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            commented.add(token.start[0])
        elif token.type not in _BLANK:
            held.update(range(token.start[0], token.end[0] + 1))
    held -= dropped
    return len(commented - held), tuple(lines[number - 1].strip() for number in sorted(held))


_BLANK: Final = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def _is_docstring(node: ast.AST) -> bool:
    """Also of a field: a text that stands alone says something to the reader, and does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _rows(node: ast.AST) -> range:
    assert isinstance(node, ast.stmt)
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _class(node: ast.ClassDef, module: str) -> Measured:
    fields = _changing_fields(node)
    own = {
        target.attr
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }
    made = next((child for child in node.body if isinstance(child, ast.FunctionDef) and child.name == "__init__"), None)
    taken = sum(fields.values()) if made is None else _arguments(made.args)
    return Measured(name=f"{module}.{node.name}", attributes=len(own | set(fields)), arguments=taken)


def _arguments(args: ast.arguments) -> int:
    named = len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) - 1
    return named + (args.vararg is not None) + (args.kwarg is not None)


def _changing_fields(node: ast.ClassDef) -> dict[str, bool]:
    """The fields of a dataclass that is not frozen, and whether its constructor has to be given each."""
    made = [ast.unparse(each) for each in node.decorator_list]
    if not any(each.startswith("dataclass") and "frozen=True" not in each for each in made):
        return {}
    return {
        child.target.id: child.value is None
        for child in node.body
        if isinstance(child, ast.AnnAssign)
        and isinstance(child.target, ast.Name)
        and not ast.unparse(child.annotation).startswith("ClassVar")
    }


# --- all of them ---------------------------------------------------------------------------------


def _complexity(source: Path) -> dict[Path, int]:
    """The largest in each file. Ruff tells it of every function that is over a limit, so the limit is 0."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--exit-zero", "--select", "C901"]
    options = ["--config", "lint.mccabe.max-complexity=0", "--output-format", "json", str(source)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    found = defaultdict[Path, int](int)
    for each in json.loads(done.stdout):
        told = re.search(r"\((\d+) > 0\)", each["message"])
        assert told is not None, each["message"]
        path = Path(each["filename"])
        found[path] = max(found[path], int(told[1]))
    return found


def _cycles(source: Path) -> list[list[str]]:
    """Groups of modules from each of which every other can be reached."""
    sys.path.insert(0, str(source))  # in front of the installed ones, which may be another checkout's
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)
    found: list[list[str]] = []
    seen: set[str] = set()
    for module in sorted(graph.modules):
        if module not in seen and graph.find_downstream_modules(module):
            inside = graph.find_downstream_modules(module) & graph.find_upstream_modules(module)
            seen |= inside
            if inside:
                found.append(sorted(inside | {module}))
    return found


def _duplicates(modules: list[Module]) -> list[str]:
    """Each pair of places once, however long the run that they share."""
    places = defaultdict[tuple[str, ...], list[tuple[int, int]]](list)
    plain = [_distinct(module.code) for module in modules]
    for index, lines in enumerate(plain):
        for start in range(len(lines) - RUN + 1):
            places[lines[start : start + RUN]].append((index, start))
    pairs = {(one, two) for same in places.values() for place, one in enumerate(same) for two in same[place + 1 :]}
    # Where the lines before are equal too, the run began earlier, and that pair is the one that counts.
    return [
        f"{modules[one].name} ~ {modules[two].name}: {plain[one][start]!r}"
        for (one, start), (two, other) in sorted(pairs)
        if ((one, start - 1), (two, other - 1)) not in pairs
    ]


def _distinct(code: tuple[str, ...]) -> tuple[str, ...]:
    """Without the lines that have to be the same: imports, `__all__`, brackets that stand alone."""
    text = "\n".join(code)
    text = re.sub(r"^(from \S+ import \([^)]*\)|__all__ = \[[^\]]*\])$", "", text, flags=re.MULTILINE)
    return tuple(line for line in text.split("\n") if re.search(r"\w", line) and not _IMPORT.match(line))


_IMPORT: Final = re.compile(r"(from \S+ )?import ")

if __name__ == "__main__":
    sys.exit(main())
