"""Measures of the source tree, and the limits that it must keep.

    python design/measures.py                 a table, the ratios, then whatever is over a limit
    python design/measures.py --check         the same, and exit 1 if anything is over a limit
    python design/measures.py --root DIR      another checkout, to compare two commits with one script

How each figure is counted:

* complexity: McCabe's, as ruff counts it;
* comments: lines that hold a comment and nothing else, per line of code;
* lines of code: neither blank, nor comment, nor docstring;
* cycles: groups of modules that import each other, also inside functions; imports for types alone do not run;
* duplicates: pairs of places with six or more equal lines of code, imports and `__all__` apart, per 1,000 lines;
* median module, small modules: lines of modules that are neither a package file, nor `__main__`, nor only re-exports;
* widest folder: the most modules in one folder, package files and `__main__` apart;
* single-importer modules: imported by exactly one module, in the same package: probably paragraphs of it;
* participles: names that are a bare participle, pronoun or adverb (`found`, `one`, `lately`), per 1,000 occurrences of
  names (variables, arguments, attributes, functions, classes);
* question docstrings: module docstrings that begin with What, Who, How, Where or Which, in percent;
* repeated class names: public class names that more than one module defines.

Attributes (names set on `self`, or fields of a dataclass that can change) and constructor arguments are advice: classes
with more than 15 and 8 are listed and fail nothing.
"""

import argparse
import ast
import io
import json
import re
import statistics
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grimp
from rich.console import Console
from rich.table import Table

PACKAGES: Final = ("toolfold", "toolfold_guest")
ADVISED_ATTRIBUTES: Final = 15
ADVISED_ARGUMENTS: Final = 8
MAX_COMPLEXITY: Final = 15
MAX_LINES: Final = 600
MIN_LINES: Final = 60
MIN_COMMENTS: Final = {"toolfold.protocol": 0.05, "toolfold.engines.process": 0.05, "toolfold_guest": 0.05}
"""Where a reader cannot follow without reasons: the wire, the engine's host half, the jail and the guest."""
MAX_DUPLICATES: Final = 0.4
DUPLICATE_LINES: Final = 6
MIN_MEDIAN: Final = 180
LIMITS: Final = {
    "small modules": 20,
    "modules in the widest folder": 20,
    "single-importer modules": 40,
    "participles per 1,000 names": 5,
    "question docstrings in percent": 2,
    "repeated class names": 10,
}
ADAPTERS: Final = frozenset({"toolfold.sources.agent_tools"})
"""Small on purpose: they stand between the package and an optional dependency, which only they import."""
PARTICIPLES: Final = frozenset(
    (  # noqa: SIM905  # a list would have one word a line
        "ahead asked aside away begun beside bought brought built caught chosen drawn earlier felt found "
        "given gone got grown heard held here itself kept known lately later led left lost made meant met "
        "named noted one ones opened others said seen sent shown sometimes soon sought spoken such taken "
        "taped taught them there these they this those thought thrown told torn wanted what whatever which "
        "who whoever whose worn written"
    ).split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSize:
    """Size of one class."""

    name: str
    attributes: int
    arguments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One source file, parsed once."""

    name: str
    path: Path
    lines: int
    code: tuple[str, ...]
    """Its lines of code, stripped."""
    comments: int
    classes: tuple[ClassSize, ...]
    complexity: int
    names: Counter[str]
    docstring: str
    is_plain: bool
    """Neither a package file, nor `__main__`, nor re-exports alone."""

    @property
    def package(self) -> str:
        """The package that the module is in, or is the file of."""
        return self.name if self.path.stem == "__init__" else self.name.rpartition(".")[0]


def main() -> int:
    """Print the figures; 1 if `--check` was passed and something is over a limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if anything is over a limit")
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout to measure"
    )
    arguments = parser.parse_args()
    source = arguments.root / "src"
    complexity = _complexity(source)
    files = sorted(path for package in PACKAGES for path in (source / package).rglob("*.py"))
    modules = [_module(path, source, complexity) for path in files]
    graph = _import_graph(source)
    cycles, duplicates, ratios = _cycles(graph), _duplicates(modules), _ratios(modules, graph)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_table(modules))
    for line in _advice(modules):
        console.print(line, style="dim", highlight=False, soft_wrap=True)
    console.print(_summary(modules, cycles, duplicates, ratios), highlight=False, soft_wrap=True)
    violations = list(_violations(modules, cycles, duplicates, ratios))
    for line in violations:
        console.print(line, style="red", highlight=False, soft_wrap=True)
    return int(arguments.check and bool(violations))


# --- report --------------------------------------------------------------------------------------


def _table(modules: list[Module]) -> Table:
    table = Table(title="largest in each package")
    table.add_column("package")
    for head in ("modules", "lines of code", "module", "complexity", "comments"):
        table.add_column(head, justify="right")
    for package, members in _by_package(modules).items():
        table.add_row(
            package,
            str(len(members)),
            f"{_code(members):,}",
            str(max(module.lines for module in members)),
            str(max(module.complexity for module in members)),
            f"{_comment_share(members):.2f}",
        )
    return table


def _advice(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        for size in module.classes:
            if size.attributes > ADVISED_ATTRIBUTES:
                yield f"advice: {size.name} has {size.attributes} attributes"
            if size.arguments > ADVISED_ARGUMENTS:
                yield f"advice: {size.name} has {size.arguments} constructor arguments"


def _summary(
    modules: list[Module], cycles: list[list[str]], duplicates: list[str], ratios: dict[str, list[str] | float]
) -> str:
    figures = ", ".join(f"{_figure(ratio):g} {name}" for name, ratio in ratios.items())
    return (
        f"{len(modules)} modules, {sum(module.lines for module in modules):,} lines, {_code(modules):,} lines of code, "
        f"{_comment_share(modules):.3f} comment lines per line of code, {len(cycles)} import cycles, "
        f"{_per_thousand(modules, duplicates):.2f} duplicates per 1,000 lines, "
        f"median module {_median(modules):g} lines, {figures}"
    )


def _violations(
    modules: list[Module], cycles: list[list[str]], duplicates: list[str], ratios: dict[str, list[str] | float]
) -> Iterator[str]:
    for module in modules:
        if module.lines > MAX_LINES:
            yield f"{module.name}: {module.lines} lines, over {MAX_LINES}"
        if module.complexity > MAX_COMPLEXITY:
            yield f"{module.name}: complexity {module.complexity}, over {MAX_COMPLEXITY}"
    for package, least in MIN_COMMENTS.items():
        members = [module for module in modules if f"{module.name}.".startswith(f"{package}.")]
        if _comment_share(members) < least:
            yield f"{package}: {_comment_share(members):.3f} comment lines per line of code, under {least}"
    for cycle in cycles:
        yield f"import cycle: {', '.join(cycle)}"
    if _per_thousand(modules, duplicates) > MAX_DUPLICATES:
        yield from (f"duplicate: {places}" for places in duplicates)
    if len(modules) > MIN_MODULES_FOR_MEDIAN and _median(modules) < MIN_MEDIAN:
        yield f"median module: {_median(modules):g} lines, under {MIN_MEDIAN}"
    for name, ratio in ratios.items():
        if _figure(ratio) > LIMITS[name]:
            named = f": {', '.join(ratio)}" if isinstance(ratio, list) else ""
            yield f"{_figure(ratio):g} {name}, over {LIMITS[name]}{named}"


MIN_MODULES_FOR_MEDIAN: Final = 100
"""A median says nothing of the few modules of a test's tree."""


def _figure(ratio: list[str] | float) -> float:
    return len(ratio) if isinstance(ratio, list) else round(ratio, 2)


def _by_package(modules: list[Module]) -> dict[str, list[Module]]:
    packages = defaultdict[str, list[Module]](list)
    for module in modules:
        packages[module.package].append(module)
    return dict(sorted(packages.items()))


def _code(modules: list[Module]) -> int:
    return sum(len(module.code) for module in modules)


def _comment_share(modules: list[Module]) -> float:
    return sum(module.comments for module in modules) / max(1, _code(modules))


def _per_thousand(modules: list[Module], duplicates: list[str]) -> float:
    return len(duplicates) * 1000 / max(1, _code(modules))


def _median(modules: list[Module]) -> float:
    return statistics.median([module.lines for module in modules if module.is_plain] or [0])


# --- ratios of the tree --------------------------------------------------------------------------


def _ratios(modules: list[Module], graph: grimp.ImportGraph) -> dict[str, list[str] | float]:
    """Each ratio of `LIMITS`: a figure, or the modules or names that it counts."""
    plain = [module for module in modules if module.is_plain]
    names = sum((module.names for module in modules), Counter[str]())
    participles = sum(count for name, count in names.items() if name in PARTICIPLES)
    questions = [module for module in modules if re.match(r"(What|Who|How|Where|Which)\b", module.docstring)]
    return {
        "small modules": [module.name for module in plain if module.lines < MIN_LINES and module.name not in ADAPTERS],
        "modules in the widest folder": _widest_folder(modules),
        "single-importer modules": _single_importers(plain, graph),
        "participles per 1,000 names": participles * 1000 / max(1, names.total()),
        "question docstrings in percent": len(questions) * 100 / max(1, len(modules)),
        "repeated class names": _repeated_class_names(modules),
    }


def _widest_folder(modules: list[Module]) -> list[str]:
    folders = defaultdict[Path, list[str]](list)
    for module in modules:
        if module.path.stem not in ("__init__", "__main__"):
            folders[module.path.parent].append(module.name)
    return max(folders.values(), key=len, default=[])


def _single_importers(plain: list[Module], graph: grimp.ImportGraph) -> list[str]:
    return [
        module.name
        for module in plain
        if len(importers := graph.find_modules_that_directly_import(module.name)) == 1
        and next(iter(importers)).startswith(f"{module.package}.")
    ]


def _repeated_class_names(modules: list[Module]) -> list[str]:
    places = Counter(
        size.name.rpartition(".")[2] for module in modules for size in module.classes if size.name.count("<") == 0
    )
    return sorted(name for name, count in places.items() if count > 1 and not name.startswith("_"))


# --- one module ----------------------------------------------------------------------------------


def _module(path: Path, source: Path, complexity: dict[Path, int]) -> Module:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    parts = path.relative_to(source).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    comments, code = _lines(text, tree)
    return Module(
        name=name,
        path=path,
        lines=len(text.splitlines()),
        code=code,
        comments=comments,
        classes=tuple(_class_size(node, name) for node in tree.body if isinstance(node, ast.ClassDef)),
        complexity=complexity.get(path, 1),
        names=Counter(identifier.strip("_").lower() for identifier in _identifiers(tree)),
        docstring=ast.get_docstring(tree) or "",
        is_plain=path.stem not in ("__init__", "__main__") and not all(_only_exports(node) for node in tree.body),
    )


def _only_exports(node: ast.stmt) -> bool:
    is_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    return is_all or isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node)


def _identifiers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def _lines(text: str, tree: ast.Module) -> tuple[int, tuple[str, ...]]:
    """The number of lines that are a comment and nothing else, and the lines of code."""
    lines = text.splitlines()
    docstrings = {number for node in ast.walk(tree) if _is_docstring(node) for number in _rows(node)}
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _BLANK:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    return len(comments - code), tuple(lines[number - 1].strip() for number in sorted(code))


_BLANK: Final = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def _is_docstring(node: ast.AST) -> bool:
    """Also of a field: a text that stands alone says something to the reader, and does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _rows(node: ast.AST) -> range:
    assert isinstance(node, ast.stmt)
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _class_size(node: ast.ClassDef, module: str) -> ClassSize:
    fields = _mutable_fields(node)
    attributes = {
        target.attr
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }
    init = next((child for child in node.body if isinstance(child, ast.FunctionDef) and child.name == "__init__"), None)
    count = sum(fields.values()) if init is None else _argument_count(init.args)
    return ClassSize(name=f"{module}.{node.name}", attributes=len(attributes | set(fields)), arguments=count)


def _argument_count(args: ast.arguments) -> int:
    count = len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) - 1
    return count + (args.vararg is not None) + (args.kwarg is not None)


def _mutable_fields(node: ast.ClassDef) -> dict[str, bool]:
    """The fields of a dataclass that is not frozen, and whether its constructor requires each."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    if not any(text.startswith("dataclass") and "frozen=True" not in text for text in decorators):
        return {}
    return {
        child.target.id: child.value is None
        for child in node.body
        if isinstance(child, ast.AnnAssign)
        and isinstance(child.target, ast.Name)
        and not ast.unparse(child.annotation).startswith("ClassVar")
    }


# --- all modules ---------------------------------------------------------------------------------


def _complexity(source: Path) -> dict[Path, int]:
    """The largest in each file. Ruff reports every function that is over a limit, so the limit is 0."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--exit-zero", "--select", "C901"]
    options = ["--config", "lint.mccabe.max-complexity=0", "--output-format", "json", str(source)]
    process = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    largest = defaultdict[Path, int](int)
    for report in json.loads(process.stdout):
        match = re.search(r"\((\d+) > 0\)", report["message"])
        assert match is not None, report["message"]
        path = Path(report["filename"])
        largest[path] = max(largest[path], int(match[1]))
    return largest


def _import_graph(source: Path) -> grimp.ImportGraph:
    sys.path.insert(0, str(source))  # in front of the installed packages, which may be another checkout's
    return grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)


def _cycles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Groups of modules from each of which every other can be reached."""
    cycles: list[list[str]] = []
    visited: set[str] = set()
    for module in sorted(graph.modules):
        if module not in visited and graph.find_downstream_modules(module):
            members = graph.find_downstream_modules(module) & graph.find_upstream_modules(module)
            visited |= members
            if members:
                cycles.append(sorted(members | {module}))
    return cycles


def _duplicates(modules: list[Module]) -> list[str]:
    """Each pair of places once, however long the run that they share."""
    places = defaultdict[tuple[str, ...], list[tuple[int, int]]](list)
    plain = [_distinct(module.code) for module in modules]
    for index, lines in enumerate(plain):
        for start in range(len(lines) - DUPLICATE_LINES + 1):
            places[lines[start : start + DUPLICATE_LINES]].append((index, start))
    pairs = {(a, b) for same in places.values() for place, a in enumerate(same) for b in same[place + 1 :]}
    # Where the lines before are equal too, the run began earlier, and that pair is the one that counts.
    return [
        f"{modules[a].name} ~ {modules[b].name}: {plain[a][start]!r}"
        for (a, start), (b, start_b) in sorted(pairs)
        if ((a, start - 1), (b, start_b - 1)) not in pairs
    ]


def _distinct(code: tuple[str, ...]) -> tuple[str, ...]:
    """Without the lines that have to be the same: imports, `__all__`, brackets that stand alone."""
    text = "\n".join(code)
    text = re.sub(r"^(from \S+ import \([^)]*\)|__all__ = \[[^\]]*\])$", "", text, flags=re.MULTILINE)
    return tuple(line for line in text.split("\n") if re.search(r"\w", line) and not _IMPORT.match(line))


_IMPORT: Final = re.compile(r"(from \S+ )?import ")

if __name__ == "__main__":
    sys.exit(main())
