"""Mistakes that Python does not tell: what is never called, and texts, guards and handlers without effect.

Certain ones are faults; a fault that is not certain becomes a hint of the outcome, which its reader sees first.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from typing import Final

from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.misused_values import is_print
from toolfold.program.syntax_facts import CATCHES_TYPES, UNGUARDED, Function, NodeUse, last_name


def silent_faults(program: Analysis) -> Iterator[Fault]:
    """Faults in no order; each rule is asked only where the program has what it is about."""
    if "__name__" in program.names.loads:
        yield from _guard_faults(program)
    if program.reader.shape.long_tries or program.reader.shape.raises:
        yield from _handler_faults(program)
    if program.reader.values.braces:
        yield from _text_faults(program)


# ----------------------------------------------------------------------------------------------------
# Programs that define what does the work, and never call it.

_MAIN: Final = "__main__"


def uncalled_faults(program: Analysis) -> Iterator[Fault]:
    """A `main`, or another function with the program's tool calls, that nothing calls."""
    functions = [node for node in program.tree.body if isinstance(node, Function) and not node.decorator_list]
    idle = [node for node in functions if not _is_mentioned(node, program)]
    if not idle:
        return
    uses = [use for use in program.reader.calls if use.node in program.tools]
    if any(program.reach(use, UNGUARDED) for use in uses):
        idle = [node for node in idle if node.name == "main"]
    elif not uses:
        idle = [node for node in idle if node.name == "main" and not node.args.args]
    is_inert = all(map(_is_definition, program.tree.body)) and "result" not in program.reader.root.bound
    for node in idle[-1:]:
        call = f"{node.name}({'...' if node.args.args else ''})"
        call = f"await {call}" if isinstance(node, ast.AsyncFunctionDef) else call
        yield Fault("name", f"nothing calls {node.name!r}; end the program with '{call}'", node, is_inert)


def _is_mentioned(function: Function, program: Analysis) -> bool:
    first, last = function.lineno, function.end_lineno or function.lineno
    return any(not first <= use.node.lineno <= last for use in program.names.loads.get(function.name, ()))


def _is_definition(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.ClassDef() | ast.Pass():
            return True
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return value is None or not any(isinstance(node, ast.Await) for node in ast.walk(value))
    return isinstance(statement, Function)


def _guard_faults(program: Analysis) -> Iterator[Fault]:
    """`if __name__ == "main":`, whose block never runs."""
    for use in program.names.loads.get("__name__", ()):
        match program.outer(use.node):
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                text = right if left is use.node else left
                if isinstance(text, ast.Constant) and _is_nearly_main(text.value):
                    yield Fault("name", f"'__name__' is never {text.value!r}; write {_MAIN!r}", text)


def _is_nearly_main(value: object) -> bool:
    is_text = isinstance(value, str) and value != _MAIN
    return is_text and re.sub(r"\W|_", "", str(value)).lower() in {"main", "mian", "man", "mai", "name", "maim", "mani"}


# ----------------------------------------------------------------------------------------------------
# Statements without the effect that they are written for: texts with braces, handlers, exceptions of text.

_FORMATTING: Final = frozenset(
    {"Formatter", "Template", "format", "format_map", "replace", "safe_substitute", "sub", "substitute", "vformat"}
)


def _text_faults(program: Analysis) -> Iterator[Fault]:
    """Texts with `{name}` in them that are no f-strings: certain where they are printed and compute something."""
    names = program.names
    formats = not (_FORMATTING.isdisjoint(names.attributes) and _FORMATTING.isdisjoint(names.loads))
    for use in program.reader.values.braces:
        fields = _fields(use)
        path = program.around(use) if fields else []
        outer = next((node for node in reversed(path) if not isinstance(node, ast.BinOp)), None)
        is_printed = outer is not None and is_print(outer)
        is_template = (
            isinstance(outer, ast.Attribute)
            or (formats and not is_printed)
            or (not is_printed and bool(getattr(outer, "keywords", ())))
        )
        if outer is None or is_template or any(isinstance(getattr(node, "op", None), ast.Mod) for node in path[-2:]):
            continue
        computes = any(not isinstance(field.value, ast.Name) or field.format_spec for field in fields)
        if program.reach(use, UNGUARDED):
            text = f"{{{ast.unparse(fields[0].value)}}} stands in a text that is no f-string; write f before its quote"
            yield Fault("name", text, use.node, is_printed and computes)


def _fields(use: NodeUse) -> list[ast.FormattedValue]:
    """The expressions that a text would have as an f-string, if all of their names have a value there."""
    value = use.node.value
    if "${" in value or "{{" in value or "'''" in value or "\\" in value:
        return []
    try:
        tree = ast.parse(f"f'''{value} '''", mode="eval").body
    except (SyntaxError, ValueError):
        return []
    fields = [node for node in getattr(tree, "values", ()) if isinstance(node, ast.FormattedValue)]
    for field in fields:
        names = [node.id for node in ast.walk(field.value) if isinstance(node, ast.Name)]
        own = [name for name in names if use.scope.find(name) is not None]
        if not own or any(name not in own and not hasattr(builtins, name) for name in names):
            return []
    return fields


def _handler_faults(program: Analysis) -> Iterator[Fault]:
    """Handlers after another that catches the same, and texts that are raised."""
    for node in program.reader.shape.long_tries:
        for index, handler in enumerate(node.handlers[1:], 1):
            before = next((item for item in node.handlers[:index] if _covers(item.type, handler.type)), None)
            if before is not None and before.type is not None and handler.type is not None:
                first, later = ast.unparse(before.type), ast.unparse(handler.type)
                text = f"'except {later}' never runs, for 'except {first}' before it catches the same; put it first"
                yield Fault("name", text, handler.type, is_certain=False)
    for use in program.reader.shape.raises:
        value = use.node.exc
        if isinstance(value, ast.JoinedStr | ast.Dict | ast.List | ast.Constant) or (
            isinstance(value, ast.BinOp) and isinstance(value.left, ast.Constant | ast.JoinedStr)
        ):
            text = "only exceptions can be raised; write 'raise ValueError(...)' around it"
            is_certain = bool(program.reach(use, CATCHES_TYPES))
            if is_certain or program.reach(use, UNGUARDED):
                yield Fault("name", text, value, is_certain)


def _covers(broad: ast.expr | None, narrow: ast.expr | None) -> bool:
    """Whether a handler leaves nothing for another after it."""
    kinds = [getattr(builtins, last_name(item), None) for item in _parts(broad)]
    classes = tuple(kind for kind in kinds if isinstance(kind, type))
    known = {**vars(builtins), "ToolError": RuntimeError, "JSONDecodeError": ValueError}
    later = [known.get(last_name(item)) for item in _parts(narrow)]
    return bool(later) and all(isinstance(kind, type) and issubclass(kind, classes) for kind in later)


def _parts(kind: ast.expr | None) -> list[ast.expr]:
    return kind.elts if isinstance(kind, ast.Tuple) else [] if kind is None else [kind]
