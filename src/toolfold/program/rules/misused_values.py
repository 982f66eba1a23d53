"""Values in places that make no sense of them: what nobody awaits, calls or returns, and tools used as other things.

The place of a value is the node around it, and tables say what it can take. A tool's call needs no `await`; a function
of the program's own does, as in any Python. A fault that is not certain becomes a hint of the outcome.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import types
from collections.abc import Container, Iterator
from itertools import pairwise
from typing import Final

from toolfold.program.known_names import PRESET_NAMES
from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.syntax_facts import (
    CATCHES_ATTRIBUTES,
    CATCHES_TYPES,
    SPEAKS_OF_NAMES,
    UNGUARDED,
    Function,
    Kind,
    NodeUse,
    Scope,
    is_generator,
    last_name,
)

_COROUTINE_ATTRIBUTES: Final = ("close", "send", "throw")
_SPOILING: Final[dict[type[ast.AST], str]] = {
    ast.Subscript: "value", ast.FormattedValue: "value", ast.AugAssign: "value", ast.withitem: "context_expr",
    ast.For: "iter", ast.AsyncFor: "iter", ast.If: "test", ast.While: "test", ast.IfExp: "test", ast.Assert: "test",
}  # fmt: skip
"""Nodes that cannot take a coroutine in a field."""


def is_misplaced(node: ast.expr, program: Analysis) -> bool:
    """Whether no coroutine can be used so: dropped, subscripted, added, looped over, tested, ..."""
    outer = program.outer(node)
    if outer.__class__ in _SPOILING:
        return getattr(outer, _SPOILING[outer.__class__]) is node
    match outer:
        case ast.Starred() | ast.BinOp() | ast.UnaryOp():
            return True
        case ast.Expr():
            return outer not in program.returns
        case ast.comprehension():
            return node is not outer.target
        case ast.Attribute(attr=name):
            return name not in _COROUTINE_ATTRIBUTES and not name.startswith(("_", "cr_"))
        case ast.Compare(left=first, ops=signs, comparators=others):
            for sign, (left, right) in zip(signs, pairwise([first, *others]), strict=True):
                is_compared = node is right or (node is left and not isinstance(sign, ast.In | ast.NotIn))
                if is_compared and not isinstance(sign, ast.Is | ast.IsNot):
                    return True
        case ast.Assign(targets=targets):
            return isinstance(node, ast.Call) and any(isinstance(part, ast.Tuple | ast.List) for part in targets)
    return False


# ----------------------------------------------------------------------------------------------------
# Coroutines of the program's own that nobody awaits, and `gather` in shapes that cannot work.

_ITERATING: Final = frozenset(
    {"all", "any", "Counter", "deque", "dict", "enumerate", "extend", "fmean", "frozenset", "fsum", "join", "list",
     "max", "mean", "median", "min", "set", "sorted", "sum", "tuple", "zip"}
)  # fmt: skip
_CONSUMING: Final = frozenset(
    {"abs", "all", "any", "dict", "enumerate", "float", "frozenset", "int", "join", "len", "list", "max", "min",
     "print", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"}
)  # fmt: skip
"""Functions that can do nothing useful with a coroutine or a function."""
_NO_COROUTINE: Final = _ITERATING | _CONSUMING | {"bool", "filter", "iter", "map", "next"}
_LISTS: Final = (ast.List, ast.ListComp, ast.Tuple, ast.GeneratorExp)


def coroutine_faults(program: Analysis) -> Iterator[Fault]:
    """Faults in no order."""
    names = program.names
    may_gather = "gather" in names.attributes or "asyncio" in names.modules
    may_await_inside = program.reader.values.awaited and ast.GeneratorExp in program.reader.shape.kinds
    if not (may_gather or names.coroutines or may_await_inside):
        return
    for use in program.reader.calls:
        name, arguments = last_name(use.node.func), use.node.args
        fault = None
        if may_await_inside and arguments and arguments[0].__class__ is ast.GeneratorExp:
            fault = _async_generator(use, name, program)
        is_gather = may_gather and name == "gather" and program.path_of(use.node.func, use.scope) == "asyncio.gather"
        if fault is None and is_gather:
            fault = _gathered(use, program)
        if fault is None and (is_gather or name in names.coroutines):
            fault = _unawaited(use, program, is_gather=is_gather)
        if fault and program.reach(use):
            yield fault


def _unawaited(use: NodeUse, program: Analysis, *, is_gather: bool) -> Fault | None:
    call, scope = use.node, use.scope
    if call in program.reader.values.awaited or not _is_wasted(call, scope, program):
        return None
    if not is_gather or _is_dropped(call, program):
        function = program.own_function(call.func, scope) or program.own_method(call.func, scope)
        if not isinstance(function, ast.AsyncFunctionDef) or is_generator(function):
            return None
    name = ast.unparse(call.func)
    replacement = f"await {name}(...)" if scope.can_await else f"asyncio.run({name}(...))"
    return Fault("not_awaited", f"{name!r} is called but never awaited; write '{replacement}'", call)


def _is_wasted(call: ast.Call, scope: Scope, program: Analysis) -> bool:
    """Whether a coroutine stands where none can be used, or only where its name is read."""
    if call in program.arguments or _is_lost(call, scope, program):
        return _is_lost(call, scope, program)
    match program.outer(call):
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            is_plain = scope.kind in (Kind.MODULE, Kind.FUNCTION) and name not in scope.declarations
            if not is_plain or name in scope.rebound:
                return False
            reads = [use for use in program.names.loads.get(name, ()) if use.scope.find(name) is scope]
            lost = [use.node for use in reads if _is_lost(use.node, use.scope, program)]
            raising = (ast.For, ast.comprehension, ast.BinOp, ast.Subscript)
            return bool(lost) and (
                len(lost) == len(reads) or any(isinstance(program.outer(node), raising) for node in lost)
            )
    return False


def _is_lost(node: ast.expr, scope: Scope, program: Analysis) -> bool:
    call = program.arguments.get(node)
    if call is None:
        return is_misplaced(node, program)
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return name in _NO_COROUTINE and scope.find(name) is None


def _is_dropped(node: ast.expr, program: Analysis) -> bool:
    outer = program.outer(node)
    return isinstance(outer, ast.Expr) and outer not in program.returns


def _gathered(use: NodeUse, program: Analysis) -> Fault | None:
    call = use.node
    only = call.args[0] if len(call.args) == 1 else call
    owner = use.scope.find(only.id) if isinstance(only, ast.Name) else None
    is_list = owner is not None and only.id not in owner.rebound and isinstance(owner.values.get(only.id), _LISTS)
    if is_list or isinstance(only, _LISTS):
        change = f"gather(*{only.id})" if is_list else "gather(*[...])"
        return Fault("arguments", f"'gather' takes the calls one by one, not in a list; write '{change}'", only)
    awaited = program.reader.values.awaited
    if call.args and all(node.lineno < call.lineno for node in awaited) and _is_dropped(call, program):
        return Fault("not_awaited", "'gather' is called but never awaited; write 'await asyncio.gather(...)'", call)
    return None


def _async_generator(use: NodeUse, name: str, program: Analysis) -> Fault | None:
    """`sum(await f(x) for x in xs)`: Python makes that an async generator, which only `async for` reads."""
    generator = use.node.args[0]
    is_own = isinstance(use.node.func, ast.Name) and not program.meaning(name, use.scope)
    inside = [generator.elt, *(test for loop in generator.generators for test in loop.ifs)]
    inside += [loop.iter for loop in generator.generators[1:]]
    if name not in _ITERATING or is_own or not any(map(_has_await, inside)):
        return None
    message = f"{name!r} cannot read a generator that awaits; write '{name}([...])' with a list inside"
    return Fault("not_awaited", message, generator)


def _has_await(top: ast.AST) -> bool:
    if isinstance(top, ast.Await | ast.Lambda):
        return isinstance(top, ast.Await)
    return any(map(_has_await, ast.iter_child_nodes(top)))


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
_CALLS_COROUTINE: Final = _CONSUMING | {"create_task", "ensure_future", "gather", "run", "run_until_complete"}
_BUILTIN_FUNCTIONS: Final = frozenset(name for name, value in vars(builtins).items() if isinstance(value, _FUNCTIONS))


def uncalled_value_faults(program: Analysis) -> Iterator[Fault]:
    """Functions that are printed, iterated over, added or awaited instead of called; faults in no order."""
    places = {use.node: (use, is_raising) for use, is_raising in _uncalled_uses(program)}
    for use, is_raising in places.values():
        fault = None if use.guard & SPEAKS_OF_NAMES else _uncalled_fault(use, places.keys(), program)
        if fault and program.reach(use, CATCHES_TYPES if is_raising else UNGUARDED):
            yield fault


def _uncalled_uses(program: Analysis) -> Iterator[tuple[NodeUse, bool]]:
    """Names and attributes that may be functions where none makes sense, and whether one raises there."""
    names, root = program.names, program.reader.root
    callees, loads, scopes, imports = program.callees, names.loads, root.scopes, {}
    own, aliases, modules = names.functions | (program.index.names.keys() & loads.keys()), set(), set()
    if ast.ClassDef in program.reader.shape.kinds:
        own.update(name for _, name in program.classes)
    for scope in scopes:
        for name, value in scope.values.items():
            if isinstance(value, ast.Name):
                is_alias = value.id in own
            else:
                is_alias = isinstance(value, ast.Attribute) and _may_be_method(value, scope, program)
            if is_alias:
                aliases.add(name)
    own |= aliases
    if program.reader.imports:
        imports = root.bound
        modules = {name for scope in scopes for name in scope.bound if scope.bound[name] in _COMMON_MODULES}
    uses = []
    for name, named in loads.items():
        if name in own or name in _BUILTIN_FUNCTIONS or ":" in imports.get(name, ""):
            uses += [(use, name in own) for use in named if use.node not in callees]
    for name, attributes in names.attributes.items():
        if name in _METHODS or name in names.functions:
            uses += [(use, True) for use in attributes if use.node not in callees]
    if modules:
        uses += [
            (use, False) for use in names.attribute_uses if use.node.value.id in modules and use.node not in callees
        ]
    for use, is_own in uses:
        is_raising = _raises(use.node, program, is_own=is_own)
        if is_raising is not None:
            yield use, is_raising
    if "result" in aliases and "result" not in names.loads and "result" in root.values:
        yield NodeUse(root.values["result"], root, UNGUARDED), False  # the program's value


def _may_be_method(node: ast.Attribute, scope: Scope, program: Analysis) -> bool:
    if node.attr in _METHODS or node.attr in program.names.functions:
        return True
    owner = scope.find(node.value.id) if isinstance(node.value, ast.Name) else None
    return owner is not None and owner.bound[node.value.id] in _COMMON_MODULES  # type: ignore[attr-defined]  # a name


def _raises(node: ast.expr, program: Analysis, *, is_own: bool) -> bool | None:
    """Whether a function raises where it stands; `None` where it may make sense."""
    call = program.arguments.get(node)
    if call is not None:
        consumers = _CALLS_COROUTINE if last_name(node) in program.names.coroutines else _CONSUMING
        callee = last_name(call.func)
        return callee != "print" if callee in consumers else None
    if isinstance(node, ast.Name) and not is_own:
        return None
    outer = program.outer(node)
    if isinstance(outer, ast.GeneratorExp) and isinstance(node, ast.Attribute):
        call = program.arguments.get(outer)
        return True if call is not None and last_name(call.func) == "join" else None
    is_raising = (_PLACES if isinstance(node, ast.Name) else _METHOD_PLACES).get(outer.__class__)
    if is_raising is None or not is_own:
        return None
    return is_raising if isinstance(outer, ast.Await) or is_misplaced(node, program) else None


def _uncalled_fault(use: NodeUse, places: Container[ast.AST], program: Analysis) -> Fault | None:
    node, scope = use.node, use.scope
    if isinstance(node, ast.Attribute):
        return _method_fault(node, scope, program)
    owner = scope.find(node.id)
    source = node if owner is None else program.value_of(node, scope)
    if isinstance(source, ast.Name) and source.id in program.index.names and scope.find(source.id) is None:
        return _uncalled(source, source.id, is_certain=False)  # it shows how it is called
    module, _, member = ("builtins", "", node.id) if owner is None else owner.bound[node.id].partition(":")
    if member:
        return _uncalled(node, node.id) if _is_function(module, member) else None
    is_idle = _is_idle(node.id, places, program)
    for name in (node, source):
        if isinstance(name, ast.Name) and program.own_function(name, scope):
            return _uncalled(name, name.id, is_certain=is_idle and _is_idle(name.id, places, program))
        if isinstance(name, ast.Name) and _shows_class(name, node, scope, program):
            return _uncalled(name, name.id, is_certain=False)  # its name may be what the program is to show
    return _method_fault(source, scope, program) if isinstance(source, ast.Attribute) and is_idle else None


def _uncalled(node: ast.expr, name: str, *, is_certain: bool = True) -> Fault:
    return Fault("name", f"{name!r} is not called here; write '{name}(...)'", node, is_certain)


def _is_idle(name: str, places: Container[ast.AST], program: Analysis) -> bool:
    """Whether nothing is done with it that makes sense of a function, in all of the program."""
    scopes = program.reader.root.scopes
    aliases = {value for scope in scopes for name, value in scope.values.items() if program.names.loads.get(name)}
    return all(use.node in places or use.node in aliases for use in program.names.loads.get(name, ()))


def _shows_class(name: ast.Name, node: ast.Name, scope: Scope, program: Analysis) -> bool:
    """Whether a class without a base or a decorator is printed, or stands alone."""
    owner, outer = scope.find(name.id), program.outer(node)
    own_class = None if owner is None or name.id in owner.rebound else program.classes.get((owner, name.id))
    kind = own_class.node if own_class else None
    is_plain = isinstance(kind, ast.ClassDef) and not (kind.bases or kind.keywords or kind.decorator_list)
    return is_plain and (isinstance(outer, ast.FormattedValue | ast.Expr | ast.Assign) or is_print(outer))


def is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def _method_fault(node: ast.Attribute, scope: Scope, program: Analysis) -> Fault | None:
    """An attribute that certainly is a method or a function of a module; or is probably one, in a small program."""
    names = program.names
    is_set = node.attr in names.set_attributes
    is_named = is_set or any(node.attr in text.split() for text in program.texts)
    if not is_named and _is_method(node, scope, program):
        return _uncalled(node, ast.unparse(node))
    is_field = is_set or node.attr in program.texts or any(node.attr in other.bound for other in scope.scopes)
    if node.attr not in _METHODS or is_field or names.modules - _KNOWN_MODULES:
        return None
    return _uncalled(node, ast.unparse(node), is_certain=False)


def _is_method(node: ast.Attribute, scope: Scope, program: Analysis) -> bool:
    value = node.value
    if isinstance(value, ast.Name):
        meaning = program.meaning(value.id, scope)
        if meaning in _COMMON_MODULES:
            return _is_function(meaning, node.attr)
    if isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str)):
        return hasattr(str, node.attr)
    if any(node.attr in other.bound for other in program.classes.values()):
        # Of a name that certainly holds an instance, or elsewhere in the program one of the same class.
        owner = scope.find(value.id) if isinstance(value, ast.Name) else None
        for instance in (value, owner and owner.values.get(value.id)):  # type: ignore[attr-defined]  # a name
            function = instance and program.own_method(ast.Attribute(value=instance, attr=node.attr), scope)
            if function:
                return not function.decorator_list
        return False
    known = program.value_of(value, scope)
    return node.attr in _TEXT_METHODS or (node.attr in _METHODS and isinstance(known, _CONTAINERS))


def _is_function(module: str, member: str) -> bool:
    is_common = module in _COMMON_MODULES or module == "builtins"
    return is_common and isinstance(getattr(importlib.import_module(module), member, None), _FUNCTIONS)


# ----------------------------------------------------------------------------------------------------
# Own functions whose value is not what their callers take it for: nothing, or a generator.

_NEEDS_VALUE: Final = (ast.BinOp, ast.Starred, ast.AugAssign, ast.withitem)
_PASSING: Final = frozenset({"create_task", "ensure_future", "gather", "list", "run", "tuple", "wait_for"})
_CONTAINERS_OF_VALUES: Final = (
    ast.Await, ast.Starred, ast.ListComp, ast.GeneratorExp, ast.comprehension, ast.List, ast.Tuple,
)  # fmt: skip
_DEEPEST: Final = 3
_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def value_faults(program: Analysis) -> Iterator[Fault]:
    """Calls of functions without `return`, and of generators, whose value is used as something else."""
    odd = {
        scope.node.name: scope
        for scope in program.reader.root.scopes
        if isinstance(scope.node, Function) and (scope.yields or not (scope.returns or _is_stub(scope.node)))
    }
    for use in program.reader.calls if odd else ():
        scope = odd.get(last_name(use.node.func))
        if scope is None or _is_dropped(use.node, program):
            continue
        function = program.own_function(use.node.func, use.scope) or program.own_method(use.node.func, use.scope)
        is_guess = function is None and _is_only_method(scope, use, program)
        if not isinstance(scope.node, Function) or (function is not scope.node and not is_guess):
            continue
        fault = (_generator_fault if scope.yields else _none_fault)(use, scope.node, program)
        if fault and program.reach(use, CATCHES_TYPES):
            yield fault._replace(is_certain=False) if is_guess else fault


def _is_only_method(scope: Scope, use: NodeUse, program: Analysis) -> bool:
    """Whether a call of an attribute of who knows what probably goes to the one method of that name."""
    name, names = last_name(use.node.func), program.names
    is_method = scope.parent is not None and scope.parent.kind is Kind.CLASS and name in names.attributes
    is_own = name not in _METHODS and name not in names.set_attributes and not names.modules - _KNOWN_MODULES
    return is_method and is_own and sum(name in other.bound for other in scope.scopes) == 1


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


def _none_fault(use: NodeUse, function: Function, program: Analysis) -> Fault | None:
    node, value = use.node, _forgotten_value(function)
    if value is not None and _takes_value(node, use.scope, program):
        return Fault("name", f"{function.name!r} returns nothing here; write '{value[1]}'", value[0])
    if isinstance(program.outer(node), ast.Await):
        node = program.outer(node)
    elif isinstance(function, ast.AsyncFunctionDef):
        return None
    places = [node, *(read.node for read in _reads(node, use.scope, program))]
    needs = any(_needs_value(place, program) for place in places)
    outers = [program.outer(place) for place in places]
    if not needs and not any(isinstance(outer, ast.FormattedValue) or is_print(outer) for outer in outers):
        return None
    text = f"{function.name!r} (line {function.lineno}) has no 'return', so this is None; add one"
    return Fault("name", text, use.node, needs)


def _reads(value: ast.AST, scope: Scope, program: Analysis) -> list[NodeUse]:
    """Reads of the name that a statement gives the value."""
    match program.outer(value):
        case ast.Assign(targets=[ast.Name(id=name)]):
            owner = scope.find(name)
            loads = [read for read in program.names.loads.get(name, ()) if read.scope.find(name) is owner]
            return [read for read in loads if program.value_of(read.node, read.scope) is value]
    return []


def _takes_value(node: ast.AST, scope: Scope, program: Analysis, depth: int = 0) -> bool:
    """Whether anything is done with it but to wait for it, or to test it."""
    inner, outer = node, program.outer(node)
    while isinstance(outer, _CONTAINERS_OF_VALUES) or (
        isinstance(outer, ast.Call) and last_name(outer.func) in _PASSING
    ):
        inner, outer = outer, program.outer(outer)
    match outer:
        case ast.Expr() | ast.Return() | ast.Lambda() | ast.If() | ast.While() | ast.BoolOp() | ast.IfExp():
            return False
        case ast.For():
            return depth == 0
        case ast.Assign(targets=[ast.Name()]):
            reads = _reads(inner, scope, program) if depth < _DEEPEST else []
            return any(_takes_value(read.node, scope, program, depth + 1) for read in reads)
    return not isinstance(outer, ast.Compare)


def _needs_value(node: ast.AST, program: Analysis) -> bool:
    """Whether None raises where a value stands."""
    outer = program.outer(node)
    if isinstance(outer, ast.GeneratorExp) and outer.elt is node:
        node, outer = outer, program.outer(outer)
    match outer:
        case ast.FormattedValue(format_spec=spec):
            return spec is not None
        case ast.Compare(ops=[kind], comparators=[right]):
            return isinstance(kind, _ORDERING) or (isinstance(kind, ast.In | ast.NotIn) and right is node)
        case ast.Call(func=ast.Name(id=name), args=arguments) if node in arguments:
            is_whole = len(arguments) == 1 or name in ("zip", "enumerate")
            return is_whole and name in _CONSUMING - {"str", "any", "all", "print"}
        case ast.Call(func=ast.Attribute(attr="join")) | ast.Assign(targets=[ast.Tuple()]):
            return True
        case ast.For(iter=part) | ast.AsyncFor(iter=part) | ast.comprehension(iter=part):
            return part is node
        case ast.Subscript(value=part) | ast.Attribute(value=part):
            return part is node
    return isinstance(outer, _NEEDS_VALUE)


def _generator_fault(use: NodeUse, function: Function, program: Analysis) -> Fault | None:
    name, is_async, outer = function.name, isinstance(function, ast.AsyncFunctionDef), program.outer(use.node)
    is_loop = isinstance(outer, ast.For | ast.Starred) or (isinstance(outer, ast.comprehension) and not outer.is_async)
    is_measure = isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id in ("len", "round")
    if is_async and is_loop:
        change = f"async for item in {name}(...)"
    elif isinstance(outer, ast.Await | ast.Subscript | ast.BinOp) or is_measure or is_print(outer):
        change = f"[item async for item in {name}(...)]" if is_async else f"list({name}(...))"
    else:
        return None
    text = f"{name!r} is {'an async' if is_async else 'a'} generator, for it has 'yield'; write '{change}'"
    return Fault("not_awaited", text, use.node, is_certain=not is_print(outer))


# ----------------------------------------------------------------------------------------------------
# Tools used as something else than a function, and replies as streams: `tool.invoke`, `await tool`.

_OF_FUNCTIONS: Final = frozenset({*dir(lambda: None), "pages"})
_MOST_USES: Final = 200
"""Of one tool."""


def tool_use_faults(program: Analysis) -> Iterator[Fault]:
    """Faults in no order, of tools that the program does not bind itself."""
    for use in _tool_uses(program):
        node = use.node
        name = last_name(node.value if isinstance(node, ast.Attribute | ast.Subscript) else node)
        if use.scope.find(name) is None and name not in program.known_names:
            fault = _tool_fault(node, program)
            if fault is not None and program.runs(use, CATCHES_ATTRIBUTES | CATCHES_TYPES):
                yield fault


def _tool_uses(program: Analysis) -> Iterator[NodeUse]:
    """Tools that are not called where they stand, and `tools` that is subscripted."""
    names = program.names
    named = [
        use
        for name in program.index.names.keys() & names.loads.keys()
        if name not in PRESET_NAMES
        for use in names.loads[name][:_MOST_USES]
    ]
    if "tools" in names.loads:
        named += [use for use in names.attribute_uses if use.node.value.id == "tools"]
    yield from (use for use in named if use.node not in program.callees and use.node not in program.arguments)
    if "tools" in names.loads:
        for use in program.reader.calls:
            function = use.node.func
            if function.__class__ is ast.Subscript and last_name(function.value) == "tools":
                yield NodeUse(function, use.scope, use.guard)


def _tool_fault(node: ast.expr, program: Analysis) -> Fault | None:
    index = program.index
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        right = f"getattr(tools, {ast.unparse(node.slice)[:40]})(...)"
        if isinstance(key, str):
            right = f"tools.{_call_of(key, program)}" if key in index.names else f"tools.{key}(...)"
        return Fault("unknown_tool", f"'tools' is a module, not a dict; write '{right}'", node.value)
    name, prefix = last_name(node), "tools." if isinstance(node, ast.Attribute) else ""
    if name not in index.names:
        return None
    change, outer = "", program.outer(node)
    if outer.__class__ not in _METHOD_PLACES:
        return None
    match outer:
        case ast.Attribute(attr=attribute, ctx=ast.Load()):
            if attribute in _OF_FUNCTIONS or attribute in program.names.set_attributes:
                return None
            text = f"{prefix + name!r} is a function, which has no {attribute!r}; call it: await "
            return Fault("unknown_tool", text + prefix + _call_of(name, program), outer)
        case ast.Await():
            change = "await {}"
        case ast.For(iter=part) | ast.AsyncFor(iter=part) | ast.comprehension(iter=part) if part is node:
            change = "for ... in await {}"
        case ast.FormattedValue(conversion=-1):
            change = "{{await {}}}"
        case ast.Subscript(value=part, ctx=ast.Load()) if part is node:
            change = "(await {})[...]"
    if not change:
        return None
    change = change.format(prefix + _call_of(name, program))
    return Fault("not_awaited", f"{prefix + name!r} is not called; write '{change}'", node)


def _call_of(name: str, program: Analysis) -> str:
    signature = program.index.signature(program.index.names[name])
    arguments = ", ".join(f"{argument}=..." for argument in signature.required)
    return f"{name}({arguments or '...'})"


def stream_faults(program: Analysis) -> Iterator[Fault]:
    """`async for` over a call of a tool, and `async with` one."""
    for use, word in program.reader.values.async_uses:
        tool = program.tools.get(use.node.value if isinstance(use.node, ast.Await) else use.node)
        if tool is not None and program.runs(use, CATCHES_TYPES):
            name = tool.python_name
            right = f"for item in await {name}(...):" if word == "for" else f"reply = await {name}(...)"
            yield Fault("reply", f"the reply of {name!r} cannot be used in 'async {word}'; write '{right}'", use.node)


RULES: Final = (coroutine_faults, uncalled_value_faults, tool_use_faults)
