"""Programs from docstrings: every `>>>` example of the standard library and of the installed libraries.

What the prompt would show is printed, so a program has the output that its docstring promises.
"""

from __future__ import annotations

import ast
import doctest
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.corpora.case import Case

STANDARD: Final = Path(sysconfig.get_path("stdlib"))
SITE: Final = Path(sysconfig.get_path("purelib"))
LIBRARIES: Final = (
    "numpy", "pandas", "scipy", "sklearn", "sympy", "mpmath", "matplotlib", "narwhals", "graphql", "setuptools",
    "pkg_resources", "fontTools", "packaging", "sortedcontainers", "pyparsing", "werkzeug", "dateutil", "pygments",
    "hypothesis", "aiologic", "joblib", "networkx", "attr", "pydantic", "griffe", "google",
)  # fmt: skip
LEFT_OUT: Final = {
    "numpy._core.multiarray:empty_like": "prints memory that was never written",
    "numpy._core.records:recarray": "prints memory that was never written",
    "numpy.matlib:empty": "prints memory that was never written",
    "numpy.ma.core:ids": "prints addresses",
    "numpy.lib._utils_impl:info": "prints which modules happen to be loaded",
    "test.test_pydoc:test_builtin_with_more_than_four_children": "prints how many classes happen to be loaded",
    "test.test_pdb:test_pdb_where_command": "prints the frames of whatever started the program",
    "test.test_pdb:test_post_mortem": "prints the frames of whatever started the program",
    "scipy.signal._filter_design:freqz_sos": "draws on after `plt.show()`, which hands the figure over as a notebook does",
    "distutils.command.sdist:_cs_path_exists": "looks for the program's own file, which a text does not have",
}
"""Examples that no two processes answer alike, with the reason of each."""
_CONVENTIONS: Final = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}
_SHOW: Final = "def shown(value):\n    if value is not None:\n        print(repr(value))\n"
_PARSER: Final = doctest.DocTestParser()


def standard() -> Iterator[Case]:
    skipped = ("site-packages", "idlelib", "turtledemo", "lib2to3")
    for path in sorted(STANDARD.rglob("*.py")):
        if path.relative_to(STANDARD).parts[0] not in skipped:
            yield from _of_file(path, STANDARD, "docstrings: standard library")


def of_modules(*names: str) -> Iterator[Case]:
    """The same of a few modules of the standard library."""
    for name in names:
        path = STANDARD / name
        yield from _of_file(path if path.suffix else path / "__init__.py", STANDARD, "docstrings: standard library")


def libraries() -> Iterator[Case]:
    for name in LIBRARIES:
        for path in sorted((SITE / name).rglob("*.py")):
            yield from _of_file(path, SITE, f"docstrings: {name if name in LIBRARIES[:7] else 'others'}")


def _of_file(path: Path, root: Path, corpus: str) -> Iterator[Case]:
    text = path.read_text("utf-8", "replace")
    if ">>> " not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    own = {name for node in tree.body for name in _bound(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            words = ast.get_docstring(node)
            if words and ">>> " in words:
                name = f"{module}:{getattr(node, 'name', '')}"
                program = _program(words, module, own)
                if program and name not in LEFT_OUT:
                    yield Case(corpus=corpus, name=name, text=program)


def _program(words: str, module: str, own: set[str]) -> str:
    try:
        examples = _PARSER.get_examples(words)
        bodies = [_statement(example) for example in examples]
    except (ValueError, SyntaxError):
        return ""
    tree = ast.parse("\n".join(bodies))
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    bound = {name for node in tree.body for name in _bound(node)}
    missing = sorted(loaded - bound - own)
    heads = [f"import {_CONVENTIONS[name]} as {name}" for name in missing if name in _CONVENTIONS]
    heads += [f"import {name}" for name in missing if name == module.partition(".")[0]]
    names = sorted((loaded & own) - bound)
    if names:
        heads.append(f"from {module} import {', '.join(names)}")
    return "\n".join([*heads, _SHOW, *bodies]) + "\n"


def _statement(example: doctest.Example) -> str:
    """An example as a prompt runs it: values are shown, and an exception that is expected is printed."""
    source = example.source.rstrip()
    parsed = ast.parse(source).body
    if len(parsed) == 1 and isinstance(parsed[0], ast.Expr):
        body = ast.get_source_segment(source, parsed[0].value) or source
        source = f"shown(({body}))" if not isinstance(parsed[0].value, ast.Yield) else source
    if example.exc_msg is None:
        return source
    inner = "\n".join("    " + line for line in source.splitlines())
    return f"try:\n{inner}\nexcept Exception as error:\n    print(type(error).__name__)"


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0]
        case ast.Assign() | ast.AnnAssign() | ast.For() | ast.With():
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    yield inner.id
        case ast.If() | ast.Try():
            for part in (*node.body, *node.orelse):
                yield from _bound(part)
        case _:
            return
