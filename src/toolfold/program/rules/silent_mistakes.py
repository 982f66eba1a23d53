"""Mistakes that Python does not tell: what is never called or returned, and texts, guards and handlers without effect.

Certain ones are faults; a fault that is not certain becomes a hint of the outcome, which its reader sees first.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import types
from collections.abc import Container, Iterator, Mapping
from typing import Final, TypeAlias

from toolfold.models import ToolSpec
from toolfold.program.reader import ProgramReader
from toolfold.program.reader_facts import (
    CATCHES_TYPES,
    SPEAKS_OF_NAMES,
    UNGUARDED,
    Function,
    Kind,
    NodeUse,
    Scope,
    last_name,
)
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.own_classes import OwnClasses, class_faults
from toolfold.program.rules.own_functions import own_function
from toolfold.program.rules.reachability import Reachability


def silent_faults(reader: ProgramReader, reachability: Reachability, tools: Mapping[str, ToolSpec]) -> Iterator[Fault]:
    """Faults in no order; each rule is asked only where the program has what it is about."""
    if ast.ClassDef in reader.shape.kinds:
        yield from class_faults(reader, reachability)
    if "__name__" in reader.names.loads:
        yield from _guard_faults(reader, reachability)
    if reader.shape.long_tries or reader.shape.raises:
        yield from _handler_faults(reader, reachability)
    if reader.values.braces:
        yield from _text_faults(reader, reachability)
    if reader.names.functions:
        yield from _value_faults(reader, reachability)
    yield from _uncalled_value_faults(reader, reachability, tools)


# ----------------------------------------------------------------------------------------------------
# Programs that define what does the work, and never call it.

_MAIN: Final = "__main__"


def uncalled_faults(
    tree: ast.Module, reader: ProgramReader, tool_calls: Container[ast.AST], reachability: Reachability
) -> Iterator[Fault]:
    """A `main`, or another function with the program's tool calls, that nothing calls."""
    functions = [node for node in tree.body if isinstance(node, Function) and not node.decorator_list]
    idle = [node for node in functions if not _is_mentioned(node, reader)]
    if not idle:
        return
    uses = [use for use in reader.calls if use.node in tool_calls]
    if any(reachability.reach(use, UNGUARDED) for use in uses):
        idle = [node for node in idle if node.name == "main"]
    elif not uses:
        idle = [node for node in idle if node.name == "main" and not node.args.args]
    is_inert = all(map(_is_definition, tree.body)) and "result" not in reader.root.bound
    for node in idle[-1:]:
        call = f"{node.name}({'...' if node.args.args else ''})"
        call = f"await {call}" if isinstance(node, ast.AsyncFunctionDef) else call
        yield Fault("name", f"nothing calls {node.name!r}; end the program with '{call}'", node, is_inert)


def _is_mentioned(function: Function, reader: ProgramReader) -> bool:
    first, last = function.lineno, function.end_lineno or function.lineno
    return any(not first <= use.node.lineno <= last for use in reader.names.loads.get(function.name, ()))


def _is_definition(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.ClassDef() | ast.Pass():
            return True
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return value is None or not any(isinstance(node, ast.Await) for node in ast.walk(value))
    return isinstance(statement, Function)


def _guard_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """`if __name__ == "main":`, whose block never runs."""
    for use in reader.names.loads.get("__name__", ()):
        path = reachability.around(use)
        compare = path[-1] if path else None
        match compare:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                text = right if left is use.node else left
                if isinstance(text, ast.Constant) and _is_nearly_main(text.value):
                    yield Fault("name", f"'__name__' is never {text.value!r}; write {_MAIN!r}", text)


def _is_nearly_main(value: object) -> bool:
    is_text = isinstance(value, str) and value != _MAIN
    return is_text and re.sub(r"\W|_", "", str(value)).lower() in {"main", "mian", "man", "mai", "name", "maim", "mani"}


# ----------------------------------------------------------------------------------------------------
# Functions and methods used as values where only what they return makes sense.

_TEXT_METHODS: Final = frozenset(
    {"append", "capitalize", "casefold", "endswith", "extend", "isalnum", "isalpha", "isdigit", "islower", "isoformat",
     "isspace", "isupper", "ljust", "lower", "lstrip", "most_common", "partition", "popitem", "replace", "rjust",
     "rsplit", "rstrip", "setdefault", "sort", "split", "splitlines", "startswith", "strftime", "strip", "swapcase",
     "total_seconds", "upper", "zfill"}
)  # fmt: skip
"""Names that are methods wherever a type of Python's own or of a common library has them."""
_METHODS: Final = _TEXT_METHODS.union(
    name for kind in (str, list, dict, set) for name in vars(kind) if not name.startswith("_")
)
_CONSUMING: Final = frozenset(
    {"abs", "all", "any", "dict", "enumerate", "float", "frozenset", "int", "join", "len", "list", "max", "min",
     "print", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"}
)  # fmt: skip
_CONTAINERS: Final = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp)
_FUNCTIONS: Final = (types.FunctionType, types.BuiltinFunctionType)


_PLACES: Final[dict[type[ast.AST], bool]] = {
    ast.FormattedValue: False, ast.Expr: False, ast.Await: True, ast.BinOp: True, ast.For: True, ast.AsyncFor: True,
    ast.comprehension: True, ast.Starred: True, ast.AugAssign: True,
}  # fmt: skip
"""Nodes whose value makes no sense as a function, and whether it raises then."""
_METHOD_PLACES: Final[dict[type[ast.AST], bool]] = {
    **_PLACES, ast.Subscript: True, ast.Attribute: True, ast.Compare: False, ast.If: False, ast.While: False,
    ast.IfExp: False, ast.UnaryOp: False,
}  # fmt: skip
_COMMON_MODULES: Final = frozenset(
    {"bisect", "collections", "copy", "datetime", "functools", "heapq", "itertools", "json", "math", "operator",
     "random", "re", "statistics", "string", "textwrap", "time"}
)  # fmt: skip
_KNOWN_MODULES: Final = _COMMON_MODULES | {"asyncio", "dataclasses", "typing"}
_JOIN: Final = frozenset({"join"})
_CALLS_COROUTINE: Final = _CONSUMING | {"create_task", "ensure_future", "gather", "run", "run_until_complete"}
_BUILTIN_FUNCTIONS: Final = frozenset(name for name, value in vars(builtins).items() if isinstance(value, _FUNCTIONS))


_Places: TypeAlias = dict[ast.expr, tuple[NodeUse, bool]]


def _uncalled_value_faults(
    reader: ProgramReader, reachability: Reachability, tools: Mapping[str, ToolSpec]
) -> Iterator[Fault]:
    """Functions that are printed, iterated over, added or awaited instead of called; faults in no order."""
    classes: set[str] = set()
    if ast.ClassDef in reader.shape.kinds:
        classes = {scope.node.name for scope in reader.root.scopes if isinstance(scope.node, ast.ClassDef)}
    used_tools = tools.keys() & reader.names.loads.keys()
    aliases = _aliases(reader, classes | used_tools)
    names = reader.names
    own = names.functions | classes | aliases | used_tools
    places = _arguments(reader, own)
    for name in own:
        if name in names.loads:
            _add_operands(places, names.loads[name], reader, reachability)
    for name, uses in names.attributes.items():
        if name in _METHODS or name in names.functions:
            _add_operands(places, uses, reader, reachability)
    if "result" in aliases and "result" not in names.loads and "result" in reader.root.values:
        value = reader.root.values["result"]  # the program's value
        places[value] = NodeUse(value, reader.root, UNGUARDED), False
    if not places:
        return
    idle = _IdleFunctions(reader, reachability, places, classes, aliases, used_tools)
    for node, (use, is_raising) in places.items():
        fault = idle.fault_of(node, use)
        is_asked = use.guard & SPEAKS_OF_NAMES
        if fault and not is_asked and reachability.reach(use, CATCHES_TYPES if is_raising else UNGUARDED):
            yield fault


def _aliases(reader: ProgramReader, classes: set[str]) -> set[str]:
    """Names that are given a function, a class or a method instead of its value."""
    functions, names = reader.names.functions, set()
    for scope in reader.root.scopes:
        for name, value in scope.values.items():
            if value.__class__ is ast.Name:
                if value.id in functions or value.id in classes:
                    names.add(name)
            elif value.__class__ is ast.Attribute and _may_be_method(value, scope, functions):
                names.add(name)
    return names


def _arguments(reader: ProgramReader, own: set[str]) -> _Places:
    """Arguments of `print` and its like that may be functions."""
    places: _Places = {}
    imports = reader.root.bound if reader.imports else {}
    for call, scope, guard in reader.calls:
        for argument in call.args:
            kind = argument.__class__
            if kind is ast.Name:
                name = argument.id
                if name not in own and name not in _BUILTIN_FUNCTIONS and ":" not in imports.get(name, ""):
                    continue
                value = argument
                consumers = _CALLS_COROUTINE if name in reader.names.coroutines else _CONSUMING
            elif kind is ast.Attribute and _may_be_method(argument, scope, reader.names.functions):
                value, consumers = argument, _CONSUMING
            elif kind is ast.GeneratorExp and argument.elt.__class__ is ast.Attribute:
                value, consumers = argument.elt, _JOIN
            else:
                continue
            callee = last_name(call.func)
            if callee in consumers:
                places[value] = NodeUse(value, scope, guard), callee != "print"
    return places


def _add_operands(places: _Places, uses: list[NodeUse], reader: ProgramReader, reachability: Reachability) -> None:
    spoiled, awaited = reader.values.spoiled, reader.values.awaited
    for use in uses:
        if use.node in spoiled or use.node in awaited:
            path = reachability.around(use)
            kinds = _PLACES if isinstance(use.node, ast.Name) else _METHOD_PLACES
            is_raising = kinds.get(type(path[-1])) if path else None
            if is_raising is not None:
                places[use.node] = use, is_raising


class _IdleFunctions:
    """Names and methods that stand where no function makes sense."""

    def __init__(
        self, reader: ProgramReader, reachability: Reachability, places: _Places, classes: set[str], aliases: set[str],
        tools: set[str],
    ) -> None:  # fmt: skip
        self._reader = reader
        self._reachability = reachability
        self._places = places
        self._classes = classes
        self._aliases = aliases
        self._tools = tools

    def fault_of(self, node: ast.expr, use: NodeUse) -> Fault | None:
        names = self._reader.names
        if isinstance(node, ast.Name):
            owner = use.scope.find(node.id)
            source = node if owner is None else self._reachability.value_of(node, use)
            if isinstance(source, ast.Name) and source.id in self._tools and use.scope.find(source.id) is None:
                return _uncalled(source, source.id, is_certain=False)  # it shows how it is called
            module, _, member = ("builtins", "", node.id) if owner is None else owner.bound[node.id].partition(":")
            if member:
                return _uncalled(node, node.id) if _is_function(module, member) else None
            if node.id in names.functions and _function_at(node, use, self._reader):
                return _uncalled(node, node.id, is_certain=self._is_idle(node.id))
            if node.id in self._classes and self._shows_class(node.id, use):
                return _uncalled(node, node.id, is_certain=False)  # its name may be what the program is to show
            value = self._reachability.value_of(node, use) if node.id in self._aliases else None
            if isinstance(value, ast.Name) and _function_at(value, use, self._reader):
                return _uncalled(value, value.id, is_certain=self._is_idle(value.id) and self._is_idle(node.id))
            if isinstance(value, ast.Name) and self._shows_class(value.id, use):
                return _uncalled(value, value.id, is_certain=False)
            if isinstance(value, ast.Attribute) and self._is_idle(node.id):
                return self._fault_of_method(value, use)
        elif isinstance(node, ast.Attribute):
            return self._fault_of_method(node, use)
        return None

    def _is_idle(self, name: str) -> bool:
        """Whether nothing is done with it that makes sense of a function, in all of the program."""
        uses = self._reader.names.loads.get(name, ())
        return all(use.node in self._places or self._is_alias_value(use.node) for use in uses)

    def _is_alias_value(self, node: ast.expr) -> bool:
        values = (pair for scope in self._reader.root.scopes for pair in scope.values.items())
        return any(value is node and self._reader.names.loads.get(name) for name, value in values)

    def _shows_class(self, name: str, use: NodeUse) -> bool:
        """Whether a class without a base or a decorator is printed, or stands alone."""
        owner, path = use.scope.find(name), self._reachability.around(use)
        scopes = [scope for scope in self._reader.root.scopes if scope.parent is owner]
        classes = [scope.node for scope in scopes if isinstance(scope.node, ast.ClassDef)]
        is_plain = any(
            not (node.bases or node.keywords or node.decorator_list) for node in classes if node.name == name
        )
        is_alone = owner is not None and name not in owner.rebound
        is_shown = bool(path) and (
            isinstance(path[-1], ast.FormattedValue | ast.Expr | ast.Assign) or _is_print(path[-1])
        )
        return is_plain and is_alone and is_shown

    def _is_method(self, node: ast.Attribute, use: NodeUse) -> bool:
        """Whether an attribute is certainly a method or a function of a module."""
        names, value = self._reader.names, node.value
        if node.attr in names.set_attributes or any(node.attr in text.split() for text in self._reachability.texts):
            return False
        if isinstance(value, ast.Name):
            owner = use.scope.find(value.id)
            meaning = value.id if owner is None else owner.bound[value.id]
            if meaning in _COMMON_MODULES:
                return _is_function(meaning, node.attr)
        if isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            return hasattr(str, node.attr)
        if any(scope.kind is Kind.CLASS and node.attr in scope.bound for scope in self._reader.root.scopes):
            return self._is_own_method(node, use)
        if node.attr in _TEXT_METHODS:
            return True
        known = self._reachability.value_of(value, use) if isinstance(value, ast.Name) else None
        return node.attr in _METHODS and isinstance(known, _CONTAINERS)

    def _fault_of_method(self, node: ast.Attribute, use: NodeUse) -> Fault | None:
        if self._is_method(node, use):
            return _uncalled(node, ast.unparse(node))
        names = self._reader.names
        is_field = any(node.attr in scope.bound for scope in self._reader.root.scopes) or any(
            node.attr in texts for texts in (names.set_attributes, self._reachability.texts)
        )
        if node.attr not in _METHODS or is_field or names.modules - _KNOWN_MODULES:
            return None
        return _uncalled(node, ast.unparse(node), is_certain=False)

    def _is_own_method(self, node: ast.Attribute, use: NodeUse) -> bool:
        """Of a name that certainly holds an instance, or elsewhere in the program one of the same class."""
        value = node.value
        owner = use.scope.find(value.id) if isinstance(value, ast.Name) else None
        other = owner.values.get(value.id) if owner is not None and isinstance(value, ast.Name) else None
        classes = OwnClasses(self._reader, self._reachability)
        for instance in filter(None, (value, other)):
            call = ast.Call(func=ast.Attribute(value=instance, attr=node.attr), args=[], keywords=[])
            function = classes.method(NodeUse(call, *use[1:]))
            if function is not None:
                return not function.decorator_list
        return False


def _may_be_method(node: ast.Attribute, scope: Scope, functions: set[str]) -> bool:
    if node.attr in _METHODS or node.attr in functions:
        return True
    if not isinstance(node.value, ast.Name):
        return isinstance(node.value, ast.Constant | ast.JoinedStr)
    owner = scope.find(node.value.id)
    return owner is not None and owner.bound[node.value.id] in _COMMON_MODULES


def _is_function(module: str, member: str) -> bool:
    is_common = module in _COMMON_MODULES or module == "builtins"
    return is_common and isinstance(getattr(importlib.import_module(module), member, None), _FUNCTIONS)


def _function_at(node: ast.Name, use: NodeUse, reader: ProgramReader) -> Function | None:
    return own_function(NodeUse(ast.Call(func=node, args=[], keywords=[]), use.scope, use.guard), reader)


def _is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def _uncalled(node: ast.expr, name: str, *, is_certain: bool = True) -> Fault:
    return Fault("name", f"{name!r} is not called here; write '{name}(...)'", node, is_certain)


# ----------------------------------------------------------------------------------------------------
# Own functions whose value is not what their callers take it for: nothing, or a generator.

_NEEDS_VALUE: Final = (ast.BinOp, ast.Starred, ast.AugAssign, ast.withitem)
_PASSING: Final = frozenset({"create_task", "ensure_future", "gather", "list", "run", "tuple", "wait_for"})
_CONTAINERS_OF_VALUES: Final = (
    ast.Await, ast.Starred, ast.ListComp, ast.GeneratorExp, ast.comprehension, ast.List, ast.Tuple,
)  # fmt: skip
_DEEPEST: Final = 3
_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _value_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """Calls of functions without `return`, and of generators, whose value is used as something else."""
    odd = {
        scope.node.name: scope
        for scope in reader.root.scopes
        if isinstance(scope.node, Function) and (scope.yields or not (scope.returns or _is_stub(scope.node)))
    }
    classes = OwnClasses(reader, reachability)
    statements = {use.node for use in reader.values.dropped} if odd else ()
    for use in reader.calls if odd else ():
        scope = odd.get(last_name(use.node.func))
        if scope is None or use.node in statements:
            continue
        function = own_function(use, reader) or classes.method(use)
        is_guess = function is None and _is_only_method(scope, use, reader)
        if not isinstance(scope.node, Function) or (function is not scope.node and not is_guess):
            continue
        path = reachability.around(use)
        judge = _generator_fault if scope.yields else _Uses(reader, reachability).fault_of
        fault = judge(use, scope.node, path) if path else None
        if fault and reachability.reach(use, CATCHES_TYPES):
            yield fault._replace(is_certain=False) if is_guess else fault


def _is_only_method(scope: Scope, use: NodeUse, reader: ProgramReader) -> bool:
    """Whether a call of an attribute of who knows what probably goes to the one method of that name."""
    name, names = last_name(use.node.func), reader.names
    is_method = scope.parent is not None and scope.parent.kind is Kind.CLASS and name in names.attributes
    is_own = name not in _METHODS and name not in names.set_attributes and not names.modules - _KNOWN_MODULES
    return is_method and is_own and sum(name in other.bound for other in reader.root.scopes) == 1


def _is_stub(function: Function) -> bool:
    last = function.body[-1]
    is_text = isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)
    return is_text or isinstance(last, ast.Pass | ast.Raise)


def _forgotten_value(function: Function) -> tuple[ast.stmt, str] | None:
    """The last statement, if it computes something that nobody reads, and what to write instead."""
    last = function.body[-1]
    while isinstance(last, ast.With | ast.AsyncWith):
        last = last.body[-1]
    match last:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            for node in ast.walk(function):
                is_read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                if is_read or (isinstance(node, ast.Global | ast.Nonlocal) and name in node.names):
                    return None
            return None if name.startswith("_") else (last, f"return {name}")
        case ast.Expr(value=value) if not isinstance(value, ast.Call | ast.Await | ast.Constant | ast.NamedExpr):
            return last, "return ..."
    return None


class _Uses:
    """Where the value of a call goes."""

    def __init__(self, reader: ProgramReader, reachability: Reachability) -> None:
        self._reader = reader
        self._reachability = reachability

    def fault_of(self, use: NodeUse, function: Function, path: list[ast.AST]) -> Fault | None:
        node, value = use.node, _forgotten_value(function)
        if value is not None and self.takes_value(path, use):
            return Fault("name", f"{function.name!r} returns nothing here; write '{value[1]}'", value[0])
        if isinstance(path[-1], ast.Await):
            node = path.pop()
        elif isinstance(function, ast.AsyncFunctionDef):
            return None
        places = [(node, path), *self.reads(path[-1], node, use)]
        needs = any(_needs_value(item, outer) for item, outer in places)
        if not needs and not any(
            outer and (isinstance(outer[-1], ast.FormattedValue) or _is_print(outer[-1])) for _, outer in places
        ):
            return None
        text = f"{function.name!r} (line {function.lineno}) has no 'return', so this is None; add one"
        return Fault("name", text, use.node, needs)

    def reads(self, statement: ast.AST, value: ast.AST, use: NodeUse) -> list[tuple[ast.AST, list[ast.AST]]]:
        """Reads of the name that a statement gives the value, each with the nodes around it."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if statement.value is value:
                owner = use.scope.find(name)
                loads = [read for read in self._reader.names.loads.get(name, ()) if read.scope.find(name) is owner]
                values = [(read, self._reachability.value_of(read.node, read)) for read in loads]
                return [(read.node, self._reachability.around(read)) for read, source in values if source is value]
        return []

    def takes_value(self, path: list[ast.AST], use: NodeUse, depth: int = 0) -> bool:
        """Whether anything is done with it but to wait for it, or to test it."""
        inner: ast.AST = use.node
        for outer in reversed(path):
            is_passing = isinstance(outer, ast.Call) and last_name(outer.func) in _PASSING
            if not is_passing and not isinstance(outer, _CONTAINERS_OF_VALUES):
                break
            inner = outer
        match outer:
            case ast.Expr() | ast.Return() | ast.Lambda() | ast.If() | ast.While() | ast.BoolOp() | ast.IfExp():
                return False
            case ast.For():
                return depth == 0
            case ast.Assign(targets=[ast.Name()]):
                reads = self.reads(outer, inner, use) if depth < _DEEPEST else []
                return any(self.takes_value(around, NodeUse(node, *use[1:]), depth + 1) for node, around in reads)
        return not isinstance(outer, ast.Compare)


def _generator_fault(use: NodeUse, function: Function, path: list[ast.AST]) -> Fault | None:
    name, is_async, outer = function.name, isinstance(function, ast.AsyncFunctionDef), path[-1]
    is_loop = isinstance(outer, ast.For | ast.Starred) or (isinstance(outer, ast.comprehension) and not outer.is_async)
    is_measure = isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id in ("len", "round")
    if is_async and is_loop:
        change = f"async for item in {name}(...)"
    elif isinstance(outer, ast.Await | ast.Subscript | ast.BinOp) or is_measure or _is_print(outer):
        change = f"[item async for item in {name}(...)]" if is_async else f"list({name}(...))"
    else:
        return None
    kind = "an async generator" if is_async else "a generator"
    text = f"{name!r} is {kind}, for it has 'yield'; write '{change}'"
    return Fault("not_awaited", text, use.node, is_certain=not _is_print(outer))


def _needs_value(node: ast.AST, path: list[ast.AST]) -> bool:
    """Whether None raises where a value stands."""
    outer = path[-1] if path else None
    if isinstance(outer, ast.GeneratorExp) and outer.elt is node and len(path) > 1:
        node, outer = outer, path[-2]
    match outer:
        case ast.FormattedValue(format_spec=spec):
            return spec is not None
        case ast.Compare(ops=[kind], comparators=[right]):
            return isinstance(kind, _ORDERING) or (isinstance(kind, ast.In | ast.NotIn) and right is node)
        case ast.Call(func=ast.Name(id=name)) if any(node is argument for argument in outer.args):
            return name in _CONSUMING - {"str", "any", "all", "print"} and (
                len(outer.args) == 1 or name in ("zip", "enumerate")
            )
        case ast.Call(func=ast.Attribute(attr="join")):
            return True
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            return outer.iter is node
        case ast.Subscript() | ast.Attribute():
            return outer.value is node
        case ast.Assign(targets=[ast.Tuple()]):
            return True
    return isinstance(outer, _NEEDS_VALUE)


# ----------------------------------------------------------------------------------------------------
# Statements without the effect that they are written for: texts with braces, handlers, exceptions of text.

_FORMATTING: Final = frozenset(
    {"Formatter", "Template", "format", "format_map", "replace", "safe_substitute", "sub", "substitute", "vformat"}
)


def _text_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """Texts with `{name}` in them that are no f-strings: certain where they are printed and compute something."""
    names = reader.names
    formats = not (_FORMATTING.isdisjoint(names.attributes) and _FORMATTING.isdisjoint(names.loads))
    for use in reader.values.braces:
        fields = _fields(use)
        path = reachability.around(use) if fields else []
        outer = next((node for node in reversed(path) if not isinstance(node, ast.BinOp)), None)
        is_printed = outer is not None and _is_print(outer)
        is_template = (
            isinstance(outer, ast.Attribute)
            or (formats and not is_printed)
            or (not is_printed and bool(getattr(outer, "keywords", ())))
        )
        if outer is None or is_template or any(isinstance(getattr(node, "op", None), ast.Mod) for node in path[-2:]):
            continue
        computes = any(not isinstance(field.value, ast.Name) or field.format_spec for field in fields)
        if reachability.reach(use, UNGUARDED):
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


def _handler_faults(reader: ProgramReader, reachability: Reachability) -> Iterator[Fault]:
    """Handlers after another that catches the same, and texts that are raised."""
    for node in reader.shape.long_tries:
        for index, handler in enumerate(node.handlers[1:], 1):
            before = next((item for item in node.handlers[:index] if _covers(item.type, handler.type)), None)
            if before is not None and before.type is not None and handler.type is not None:
                first, later = ast.unparse(before.type), ast.unparse(handler.type)
                text = f"'except {later}' never runs, for 'except {first}' before it catches the same; put it first"
                yield Fault("name", text, handler.type, is_certain=False)
    for use in reader.shape.raises:
        value = use.node.exc
        if isinstance(value, ast.JoinedStr | ast.Dict | ast.List | ast.Constant) or (
            isinstance(value, ast.BinOp) and isinstance(value.left, ast.Constant | ast.JoinedStr)
        ):
            text = "only exceptions can be raised; write 'raise ValueError(...)' around it"
            is_certain = bool(reachability.reach(use, CATCHES_TYPES))
            if is_certain or reachability.reach(use, UNGUARDED):
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
