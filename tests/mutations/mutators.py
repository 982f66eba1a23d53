"""Mistakes that models make, planted into a program: each mutator yields the texts that it can make of one."""

from __future__ import annotations

import ast
import copy
import json
import random
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

TOOL_NAMES: Final = frozenset({"list_users", "get_expenses", "get_budget", "send_report"})
Mutator = Callable[[str], Iterator[str]]


def _sites(text: str, wanted: Callable[[ast.AST], bool]) -> Iterator[tuple[ast.Module, ast.AST]]:
    """A tree of its own for each node that is wanted."""
    tree = ast.parse(text)
    indexes = [index for index, node in enumerate(ast.walk(tree)) if wanted(node)]
    for index in indexes:
        fresh = copy.deepcopy(tree)
        yield fresh, list(ast.walk(fresh))[index]


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST | None) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST | None:
        return self._new if node is self._old else self.generic_visit(node)


def _with(tree: ast.Module, old: ast.AST, new: ast.AST | None) -> str:
    changed = _Replace(old, new).visit(tree)
    assert changed is not None  # it is the module itself
    return ast.unparse(ast.fix_missing_locations(changed))


def _bound(text: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def misspelt_name(text: str) -> Iterator[str]:
    own = _bound(text)
    for tree, node in _sites(text, lambda n: isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in own):
        assert isinstance(node, ast.Name)
        yield _with(tree, node, ast.Name(node.id[:-1] + "x", ast.Load()))


def dropped_binding(text: str) -> Iterator[str]:
    for tree, node in _sites(text, lambda n: isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)):
        yield _with(tree, node, ast.Pass())


def late_binding(text: str) -> Iterator[str]:
    body = ast.parse(text).body
    for index, node in enumerate(body[:-1]):
        if isinstance(node, ast.Assign):
            moved = [*body[:index], *body[index + 1 :], node]
            yield ast.unparse(ast.Module(moved, []))


def dropped_import(text: str) -> Iterator[str]:
    for tree, node in _sites(text, lambda n: isinstance(n, ast.ImportFrom)):
        yield _with(tree, node, ast.Pass())


def unknown_import(text: str) -> Iterator[str]:
    for line in (
        "import pandsa", "from utils import helper", "import toolkit.reports as reports", "import tabulate_x",
        "from my_tools import list_users", "import nonumpy as np", "from helpers.text import shorten",
    ):  # fmt: skip
        yield f"{line}\n{text}"


def other_literal(text: str) -> Iterator[str]:
    words: dict[Any, str] = {True: "true", False: "false", None: "null"}
    for tree, node in _sites(
        text, lambda n: isinstance(n, ast.Constant) and (n.value is None or isinstance(n.value, bool))
    ):
        assert isinstance(node, ast.Constant)
        yield _with(tree, node, ast.Name(words[node.value], ast.Load()))


def console_log(text: str) -> Iterator[str]:
    if "print(" in text:
        yield text.replace("print(", "console.log(")


def client_prefix(text: str) -> Iterator[str]:
    for prefix in ("client", "api", "mcp", "session"):
        for name in sorted(TOOL_NAMES):
            if f"{name}(" in text:
                yield re.sub(rf"\b{name}\(", f"{prefix}.{name}(", text, count=1)


def dropped_await(text: str) -> Iterator[str]:
    for tree, node in _sites(text, lambda n: isinstance(n, ast.Await)):
        assert isinstance(node, ast.Await)
        yield _with(tree, node, node.value)


def synchronous(text: str) -> Iterator[str]:
    """Tools as every synchronous example teaches them."""
    bare = re.sub(rf"await (?=(?:{'|'.join(sorted(TOOL_NAMES))})\()", "", text)
    yield bare
    yield re.sub(rf"await (?=(?:{'|'.join(sorted(TOOL_NAMES))})\()", "await tools.", text)
    yield f"from tools import {', '.join(sorted(TOOL_NAMES))}\n{bare}"


def gathered_list(text: str) -> Iterator[str]:
    if "gather(*" in text:
        yield text.replace("gather(*", "gather(")


def wrong_arity(text: str) -> Iterator[str]:
    own = {n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    for _, node in _sites(text, lambda n: _calls(n, own)):
        assert isinstance(node, ast.Call)
        fewer, more = copy.deepcopy(node), copy.deepcopy(node)
        if fewer.args:
            fewer.args.pop()
            yield _swap(text, node, fewer)
        more.args.append(ast.Constant(1))
        yield _swap(text, node, more)


def _calls(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _swap(text: str, old: ast.Call, new: ast.Call) -> str:
    for tree, node in _sites(text, lambda n: isinstance(n, ast.Call)):
        if ast.dump(node, include_attributes=True) == ast.dump(old, include_attributes=True):
            return _with(tree, node, new)
    raise AssertionError("the call is in the text")


def other_attribute(text: str) -> Iterator[str]:
    for match in re.finditer(r"\blen\((\w+)\)", text):
        yield text[: match.start()] + f"{match.group(1)}.length" + text[match.end() :]
    if ".append(" in text:
        yield text.replace(".append(", ".push(")


def misspelt_tool(text: str) -> Iterator[str]:
    for name in sorted(TOOL_NAMES):
        if f"{name}(" in text:
            yield re.sub(rf"\b{name}\(", f"{name[:-1]}(", text)
            yield re.sub(rf"\b{name}\(", f"{name.replace('_', '')}(", text)


def misspelt_argument(text: str) -> Iterator[str]:
    for old, new in (("user_id=", "userid="), ("team=", "teams="), ("quarter=", "quater="), ("urgent=", "priority=")):
        if old in text:
            yield text.replace(old, new)


def missing_argument(text: str) -> Iterator[str]:
    for tree, node in _sites(text, lambda n: _calls(n, TOOL_NAMES)):
        assert isinstance(node, ast.Call)
        fewer = copy.deepcopy(node)
        fewer.keywords = fewer.keywords[1:]
        yield _with(tree, node, fewer)


def wrong_literal(text: str) -> Iterator[str]:
    for old, new in (
        ('team="sales"', "team=5"),
        ("quarter=2", "quarter='second'"),
        ("quarter=3", "quarter=[3]"),
        ("urgent=True", "urgent='maybe'"),
        ('text="open"', "text=None"),
    ):
        if old in text:
            yield text.replace(old, new)


def wrong_key(text: str) -> Iterator[str]:
    for old, new in (
        ('"amount"', '"amout"'),
        ('"category"', '"kind"'),
        ('"limit"', '"maximum"'),
        ('"is_open"', '"open"'),
    ):
        if f"[{old}]" in text:
            yield text.replace(f"[{old}]", f"[{new}]")


def attribute_of_reply(text: str) -> Iterator[str]:
    for key in ("amount", "category", "limit", "is_open"):
        if f'["{key}"]' in text:
            yield text.replace(f'["{key}"]', f".{key}")


def asked_for(text: str) -> Iterator[str]:
    for team in ("sales", "ops", "hr", "it"):
        if f'"{team}"' in text:
            yield text.replace(f'"{team}"', 'input("team? ")', 1)


def wrapped(text: str) -> Iterator[str]:
    yield f"```python\n{text}```"
    yield f"Here is the program:\n\n```python\n{text}```\n\nIt prints the total."
    yield f"<execute>\n{text}</execute>"
    yield "%matplotlib inline\n" + text
    yield re.sub(r'"(\w*)"', "“\\1”", text)
    yield text.replace("    ", "\u00a0\u00a0\u00a0\u00a0") if "    " in text else "\ufeff" + text
    yield json.dumps({"code": text})
    yield "!pip install numpy\n" + text
    yield f"~~~py\n{text}~~~"
    yield json.dumps(text)[1:-1]
    yield "\n".join(f"    {line}" for line in text.splitlines())


MUTATORS: Final[dict[str, Mutator]] = {
    function.__name__: function
    for function in (
        misspelt_name, dropped_binding, late_binding, dropped_import, unknown_import, other_literal, console_log,
        client_prefix, dropped_await, synchronous, gathered_list, wrong_arity, other_attribute, misspelt_tool, misspelt_argument,
        missing_argument, wrong_literal, wrong_key, attribute_of_reply, asked_for, wrapped,
    )
}  # fmt: skip


def mutants(programs: dict[str, str], *, most: int = 12, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Kind, program and text; at most so many of a kind for each program, chosen the same way every time."""
    for kind, mutator in MUTATORS.items():
        for name, text in programs.items():
            made = [one for one in dict.fromkeys(mutator(text)) if one.strip() != text.strip()]
            if len(made) > most:
                made = random.Random(f"{seed}/{kind}/{name}").sample(made, most)
            for one in made:
                yield kind, name, one
