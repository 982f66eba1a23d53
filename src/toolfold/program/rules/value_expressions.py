"""Types of expressions: of names by what was bound to them, of calls by what they give. Reports uses that must fail.

What is in a list or a dict may be changed through another name: whatever the program stores anywhere is collected, and
no type relies on it in the next round.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from toolfold.models import ProblemKind
from toolfold.program.rules import value_uses
from toolfold.program.rules.analysis import Analysis
from toolfold.program.rules.arguments import Fault
from toolfold.program.rules.value_types import (
    BOOL,
    DICT,
    FLOAT,
    INT,
    ITERATING,
    LIST,
    NONE,
    NUMBERS,
    RESULTS,
    SPECIAL,
    STR,
    Type,
    ValueType,
    awaited,
    fits,
    from_schema,
    join,
    join_all,
    list_of,
    of_method,
    used,
)
from toolfold.program.syntax_facts import (
    CATCHES_ATTRIBUTES,
    CATCHES_KEYS,
    CATCHES_TYPES,
    GUARDED,
    Function,
    Guard,
    Kind,
    Scope,
    is_generator,
    last_name,
)

_ASKING: Final = frozenset(
    {"isinstance", "hasattr", "getattr", "type", "callable", "issubclass", "iscoroutine", "isawaitable", "delattr"}
)
"""Functions that ask what a value is: the program knows better."""
_ADDING: Final = ("update", "setdefault", "__setitem__", "setitem", "__ior__")
_READING: Final = frozenset({"all", "any", "enumerate", "len", "max", "min", "print", "reversed", "sorted", "sum"})
ANY_KEY: Final = ""
ITEMS: Final = "[]"


class Expressions:
    """The state of a walk over a program, and the types of expressions in it."""

    def __init__(self, program: Analysis, unsure: frozenset[str]) -> None:
        reader = program.reader
        self._program, self._unsure = program, unsure
        """Keys whose values may be others than the type says, `ITEMS` for those of lists, `ANY_KEY` for all."""
        self.stored: set[str] = set()
        self.reports: list[tuple[Fault, Guard]] = []
        self._scope: Scope = reader.root
        self._names: dict[str, Type] = {}
        self._inner: list[dict[str, Type]] = []
        """Names of comprehensions and lambdas."""
        self._bindings: dict[tuple[Scope, str], Type] = {}
        self._arguments: dict[tuple[ast.AST, str], Type] = {}
        self._appended: dict[ast.Call, Type] = {}
        self._fillers: dict[tuple[Scope, str], list[ast.Call]] = {}
        self._attributes: dict[str, Type] = {}
        """Of all that is given to an attribute of that name; complete when it is settled."""
        self._changed_attributes: set[str] = set()
        self._is_quiet = self._is_inner = self._is_settled = False
        self._opaque = {name for scope in reader.root.scopes for name in scope.declarations}
        self._has_generators = not reader.shape.kinds.isdisjoint((ast.Yield, ast.YieldFrom))
        for use in reader.calls:
            if last_name(use.node.func) in _ASKING:
                self._opaque.update(node.id for node in ast.walk(use.node) if isinstance(node, ast.Name))
        if any(use.node not in program.callees for name in _ADDING for use in reader.names.attributes.get(name, ())):
            self.stored.add(ANY_KEY)  # handed over, to be called on who knows what

    def _report(self, node: ast.AST, message: str, value: Type, guard: Guard, kind: ProblemKind | None = None) -> None:
        if message and not self._is_quiet:
            kind = kind or ("reply" if value is not None and value.tool else "wrong_type")
            self.reports.append((Fault(kind, message, node), guard))

    def result_of(self, function: Function) -> Type:
        """What a call of an own function gives, whatever it is given."""
        raise NotImplementedError

    # Names

    def bind(self, name: str, value: Type) -> None:
        if name in self._opaque:
            value = None
        if self._is_inner:
            self._inner[-1][name] = value
            return
        self._names[name] = value
        key = self._scope, name
        self._bindings[key] = join(self._bindings[key], value) if key in self._bindings else value

    def _name(self, node: ast.Name) -> Type:
        name = node.id
        for names in reversed(self._inner):
            if name in names:
                return names[name]
        value = self._names.get(name)
        if value is not None and value.name != "list":
            return value
        owner = self._scope.find(name)
        is_outer = owner is not None and owner is not self._scope and owner.kind in (Kind.MODULE, Kind.FUNCTION)
        if owner is not None and is_outer and name not in self._names and not self._is_quiet:
            value = self._bindings.get((owner, name))
        if owner is None or value is None or value.name != "list" or value.item or value.schema or value.parts:
            return value
        key = owner, name
        if key not in self._fillers:
            self._fillers[key] = self._appends_to(name, owner)
        return list_of(join_all(self._appended.get(call) for call in self._fillers[key]))

    def _appends_to(self, name: str, owner: Scope) -> list[ast.Call]:
        """Calls that give a list all its items; none if it may get others, or does not start empty."""
        start, calls = owner.values.get(name), list[ast.Call]()
        if name in owner.rebound or not isinstance(start, ast.List) or start.elts:
            return []
        uses = [use for use in self._program.names.loads[name] if use.scope.find(name) is owner]
        for path in map(self._program.around, uses):
            match path[-1] if path else None:
                case ast.For() | ast.comprehension() | ast.FormattedValue() | ast.If() | ast.Starred():
                    pass
                case ast.Subscript(ctx=ast.Load()):
                    pass
                case ast.Call(func=ast.Name(id=function)) if function in _READING:
                    pass
                case ast.Attribute(attr="append") if isinstance(path[-2], ast.Call) and path[-2].func is path[-1]:
                    calls.append(path[-2])
                case _:
                    return []
        return calls

    def assign(self, target: ast.expr, value: Type, source: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self.bind(name, value)
            case ast.Starred(value=inner):
                self.assign(inner, LIST, source)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, used(value), source)
            case ast.Subscript():
                self.store(target, value)
            case ast.Attribute(attr=name):
                self.type_of(target.value)
                self._attributes[name] = join(self._attributes.get(name, value), value)

    def _unpack(self, targets: list[ast.expr], value: Type, source: ast.expr) -> None:
        has_star = any(isinstance(target, ast.Starred) for target in targets)
        parts: tuple[Type, ...] | None = None
        if value is not None and not has_star:
            guard = GUARDED if value.name in ("dict", "tuple") else CATCHES_TYPES
            self._report(source, value_uses.not_unpacked(source, value, len(targets)), value, guard)
            parts = value.parts if value.parts is not None and len(value.parts) == len(targets) else None
        element = self._element(value)
        for index, target in enumerate(targets):
            self.assign(target, parts[index] if parts is not None else element, source)

    # Parts of values, as far as nobody stored others

    def _element(self, value: Type) -> Type:
        if value is None or (ITEMS in self._unsure and value.name in ("list", "view")):
            return None
        return value.element()

    def each(self, node: ast.expr, value: Type) -> Type:
        """What a loop over a value gives."""
        value = used(value)
        if value is not None:
            self._report(node, value_uses.not_iterable(node, value), value, CATCHES_TYPES)
        return self._element(value)

    def store(self, target: ast.Subscript, value: Type) -> None:
        """Collect what an assignment puts into a list or a dict."""
        whole, index = used(self.type_of(target.value)), used(self.type_of(target.slice))
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        if whole is not None:
            self._report(target, value_uses.not_stored(target, whole, index), whole, CATCHES_TYPES)
        if isinstance(key, str):
            if whole is None or not fits(value, whole.field(key)):
                self.stored.add(key)
        elif whole is None and isinstance(target.value, ast.Attribute):
            self._changed_attributes.add(target.value.attr)
        elif whole is None:
            self.stored.add(ITEMS)
            if index is None or index.name != "int":
                self.stored.add(ANY_KEY)
        elif whole.name == "dict" and whole.schema is not None:
            self.stored.add(ANY_KEY)
        elif whole.fields is not None:
            self.stored.update(name for name, field in whole.fields.items() if not fits(value, field))
        else:
            self._grow(whole, value, target.value)

    def _grow(self, value: Type, item: Type, owner: ast.expr) -> None:
        """A list, or a dict of which only the type of values is known, gets an item."""
        has_items = value is not None and (value.schema is not None or value.item is not None)
        if isinstance(owner, ast.Name) if value is None else has_items:
            inner = None if value is None else value.item if value.name == "dict" else value.element()
            if not fits(used(item), used(inner)):
                self.stored.add(ITEMS)

    def update(self, value: Type, types: list[Type]) -> None:
        """A dict gets the keys of another, unless it is a dict of which nothing is known."""
        if value is None or (value.name == "dict" and (value.schema or value.fields or value.item)):
            for other in map(used, types):
                names = None if other is None else other.fields if other.fields is not None else other.keys
                self.stored.update([ANY_KEY] if names is None else names)

    def _note_changes(self, method: str, owner: ast.expr, value: Type, node: ast.Call, types: list[Type]) -> None:
        """Collect what a method puts into a list or a dict."""
        if method == "append" and types:
            self._appended[node] = join(self._appended.get(node, types[0]), types[0])
        if method in ("append", "insert", "appendleft", "add") and types:
            self._grow(value, types[-1], owner)
        elif method in ("extend", "extendleft") and types:
            self._grow(value, self._element(used(types[0])), owner)
        elif method in ("heappush", "heapreplace", "insort", "insort_left", "insort_right", "setitem"):
            self.stored.add(ITEMS)
        elif method == "update":
            self.update(value, types)
            self.stored.update(keyword.arg or ANY_KEY for keyword in node.keywords)
        elif method in ("__setitem__", "setdefault") and node.args:
            if isinstance(node.args[0], ast.Constant):
                self.stored.add(str(node.args[0].value))
            elif value is None and isinstance(owner, ast.Name):
                self.stored.add(ANY_KEY)

    # Expressions

    def type_of(self, node: ast.expr) -> Type:
        handler = _EXPRESSIONS.get(node.__class__)
        if handler is not None:
            return handler(self, node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.type_of(child)
        return None

    def _text(self, node: ast.JoinedStr) -> ValueType:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.type_of(part.value)
        return STR

    def _display(self, node: ast.List | ast.Set | ast.Tuple) -> ValueType:
        types = tuple(map(self.type_of, node.elts))
        has_star = any(isinstance(element, ast.Starred) for element in node.elts)
        if isinstance(node, ast.Tuple):
            return ValueType(name="tuple", parts=None if has_star else types)
        return list_of(None if has_star else join_all(types), "list" if isinstance(node, ast.List) else "set")

    def _dict(self, node: ast.Dict) -> ValueType:
        fields: dict[str, Type] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            field = self.type_of(value)
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                fields[key.value] = field
            elif key is not None:
                self.type_of(key)
        return ValueType(name="dict", fields=fields if fields and len(fields) == len(node.keys) else None)

    def _comprehension(self, node: Any) -> Type:
        self._inner.append({})
        for loop in node.generators:
            element = None if loop.is_async else self.each(loop.iter, self.type_of(loop.iter))
            self._is_inner = True
            self.assign(loop.target, element, loop.iter)
            self._is_inner = False
            for test in loop.ifs:
                self.type_of(test)
        if isinstance(node, ast.DictComp):
            self.type_of(node.key)
            result = ValueType(name="dict", item=self.type_of(node.value))
        else:
            name = {ast.ListComp: "list", ast.SetComp: "set"}.get(node.__class__, "iterator")
            result = list_of(self.type_of(node.elt), name)
        self._inner.pop()
        return result

    def _lambda(self, node: ast.Lambda, *types: Type) -> Type:
        parameters = parameters_of(node)
        self._inner.append(dict.fromkeys(parameters) | dict(zip(parameters, types, strict=False)))
        result = self.type_of(node.body)
        self._inner.pop()
        return result

    def _walrus(self, node: ast.NamedExpr) -> Type:
        value = self.type_of(node.value)
        self.bind(node.target.id, value)
        return value

    def _choice(self, node: ast.IfExp) -> Type:
        self.type_of(node.test)
        return join(self.type_of(node.body), self.type_of(node.orelse))

    def _unary(self, node: ast.UnaryOp) -> Type:
        value = used(self.type_of(node.operand))
        if isinstance(node.op, ast.Not):
            return BOOL
        return value if value is not None and value.name in NUMBERS else None

    def _binary(self, node: ast.BinOp) -> Type:
        return self.operate(node, (node.left, self.type_of(node.left)), (node.right, self.type_of(node.right)))

    def operate(
        self, node: ast.BinOp | ast.AugAssign, first: tuple[ast.expr, Type], second: tuple[ast.expr, Type]
    ) -> Type:
        left, right, sign = used(first[1]), used(second[1]), node.op
        if left is None or right is None:
            return STR if isinstance(sign, ast.Mod) and left is not None and left.name == "str" else None
        message = value_uses.no_operator(sign.__class__, (first[0], left), (second[0], right))
        self._report(node, message, left if left.tool else right, CATCHES_TYPES)
        if left.name in NUMBERS and right.name in NUMBERS:
            return FLOAT if isinstance(sign, ast.Div) else join(join(left, right), INT)
        if left.name == right.name and isinstance(sign, ast.Add):
            return join(left, right)
        return left if isinstance(sign, ast.Mod | ast.Mult) and left.name in ("str", "list") and not message else None

    def _compare(self, node: ast.Compare) -> Type:
        first, left = node.left, used(self.type_of(node.left))
        for sign, second in zip(node.ops, node.comparators, strict=True):
            right = used(self.type_of(second))
            if right is not None and isinstance(sign, ast.In | ast.NotIn):
                self._report(node, value_uses.not_iterable(second, right), right, CATCHES_TYPES)
            elif left is not None and right is not None:
                message = value_uses.no_operator(sign.__class__, (first, left), (second, right))
                self._report(node, message, left if left.tool else right, CATCHES_TYPES)
            if isinstance(sign, ast.In | ast.NotIn) and isinstance(second, ast.Tuple | ast.List | ast.Set):
                self._report(node, value_uses.never_equal(left, second.elts), left, GUARDED)
            elif isinstance(sign, ast.Eq | ast.NotEq):
                value, constant = (right, first) if isinstance(first, ast.Constant) else (left, second)
                self._report(node, value_uses.never_equal(value, [constant]), value, GUARDED)
            first, left = second, right
        return BOOL

    def _attribute(self, node: ast.Attribute) -> Type:
        is_own = self._receiver(node) is None and isinstance(node.value, ast.Name) and node.value.id == "self"
        return self._attributes.get(node.attr) if is_own and self._is_settled else None

    def _receiver(self, node: ast.Attribute) -> Type:
        """The type of what an attribute is taken from."""
        pending = self.type_of(node.value)
        value = used(pending)
        if value is not None and isinstance(node.ctx, ast.Load):
            message = value_uses.no_attribute(node, value, is_pending=pending is not value)
            self._report(node, message, value, CATCHES_ATTRIBUTES, None if value.tool else "name")
        return value

    def _subscript(self, node: ast.Subscript) -> Type:
        value, index = used(self.type_of(node.value)), used(self.type_of(node.slice))
        if value is None:
            return None
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if value.name != "dict" and isinstance(key, str) and self._is_tested(key):
            return None
        self._report(node, value_uses.no_item(node, value, index), value, CATCHES_TYPES)
        if isinstance(node.slice, ast.Slice):
            return value if value.name in ("str", "list") else None
        if value.name == "dict":
            return self._value_at(node, value, key)
        if value.parts is not None and isinstance(key, int):
            return value.parts[key] if -len(value.parts) <= key < len(value.parts) else None
        return STR if value.name == "str" else self._element(value) if value.name == "list" else None

    def _is_tested(self, key: str) -> bool:
        """Whether the program asks somewhere if a key is there."""
        return key in self._program.texts and any(
            isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and node.left.value == key
            for node in ast.walk(self._program.tree)
        )

    # object: whatever a constant of the program is.
    def _value_at(self, node: ast.Subscript, value: ValueType, key: object) -> Type:
        keys = value.keys
        if keys is not None and key not in keys and ANY_KEY not in self._unsure and isinstance(key, str | int):
            if key not in self._program.texts:
                self._report(node, value_uses.no_key(value, key), value, CATCHES_KEYS)
            return None
        if isinstance(key, str) and ANY_KEY not in self._unsure and key not in self._unsure:
            return value.field(key)
        return None if value.schema or value.fields or ITEMS in self._unsure else value.item

    def _await(self, node: ast.Await) -> Type:
        inner = node.value
        call = _call_before(inner)
        if call is not None and call in self._program.tools:
            self._report(inner, value_uses.early(inner, call), None, GUARDED, "not_awaited")
            self.type_of(call)
            return None
        value = self.type_of(inner)
        if value is None or value.name in ("call", "task"):
            return awaited(value)
        self._report(inner, value_uses.not_awaited(inner, value), value, CATCHES_TYPES)
        return value

    # Calls

    def _call(self, node: ast.Call) -> Type:
        function, tool = node.func, self._program.tools.get(node)
        if tool is not None:
            types, keywords = self._given(node)
            for argument, message in value_uses.wrong_arguments(
                node, tool, self._program.index.signature(tool), types, keywords
            ):
                self._report(argument, message, None, GUARDED)
            reply = from_schema(tool.output_schema, tool.output_schema, tool.python_name)
            return ValueType(name="call", item=reply, tool=tool.python_name)
        if isinstance(function, ast.Attribute):
            return self._method(node, function)
        value = self.type_of(function)
        types, keywords = self._given(node)
        if value is not None:
            self._report(node, value_uses.not_called(node, used(value) or value), value, CATCHES_TYPES)
            return None
        path = self._path(function)
        own = self._program.own_function(function, self._scope)
        if own is not None and not any(own.name in names for names in self._inner):
            return self._own_call(own, node, types, keywords)
        return self._library(path, node, types) if path else None

    def _given(self, node: ast.Call) -> tuple[list[Type], dict[str, Type]]:
        """Types of the arguments; functions among them are looked at later, when it is known what they get."""
        types = [None if isinstance(argument, ast.Lambda) else self.type_of(argument) for argument in node.args]
        values = {keyword.arg or "": keyword.value for keyword in node.keywords}
        return types, {
            name: None if isinstance(value, ast.Lambda) else self.type_of(value) for name, value in values.items()
        }

    def _own_call(self, function: Function, node: ast.Call, types: list[Type], keywords: dict[str, Type]) -> Type:
        names, spec = parameters_of(function), function.args
        is_clear = "" not in keywords and not any(isinstance(argument, ast.Starred) for argument in node.args)
        arguments = dict(zip(names, types, strict=False)) | keywords
        plain = [parameter.arg for parameter in (*spec.posonlyargs, *spec.args)]
        defaults = dict(zip(reversed(plain), reversed(spec.defaults), strict=False))
        for name in () if self._is_quiet else names:
            default = defaults.get(name)
            value = arguments.get(name, self.type_of(default) if isinstance(default, ast.Constant) else None)
            key = function, name
            value = value if is_clear else None
            self._arguments[key] = join(self._arguments[key], value) if key in self._arguments else value
        result = self.result_of(function)
        if isinstance(function, ast.AsyncFunctionDef):
            return None if self._has_generators and is_generator(function) else ValueType(name="task", item=result)
        return result

    def _path(self, node: ast.expr) -> str:
        """`asyncio.gather`, however it was imported; `len` for a builtin."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        is_inner = isinstance(root, ast.Name) and any(root.id in inner for inner in self._inner)
        return "" if is_inner else self._program.path_of(node, self._scope)

    def _lambdas(self, node: ast.Call, *types: Type) -> list[Type]:
        """Look at the functions among the arguments; the types that they give."""
        arguments = (*node.args, *(keyword.value for keyword in node.keywords))
        return [self._lambda(argument, *types) for argument in arguments if isinstance(argument, ast.Lambda)]

    def _library(self, path: str, node: ast.Call, types: list[Type]) -> Type:
        first = used(types[0]) if types else None
        has_star = any(isinstance(argument, ast.Starred) for argument in node.args)
        element = None
        if path in ITERATING and types and not has_star:
            at = 1 if path in ("map", "filter") and len(types) > 1 else 0
            has_many = path in ("max", "min") and len(types) > 1
            element = join_all(map(used, types)) if has_many else self.each(node.args[at], types[at])
        results = self._lambdas(node, element)
        if path == "asyncio.gather":
            return self._gather(node, types)
        if has_star:
            return RESULTS.get(path)
        message = value_uses.bad_argument(path, node, first, self._element(first))
        self._report(node, message, first, CATCHES_TYPES, None if first is not None else "arguments")
        if path == "zip":
            parts = tuple(self._element(used(value)) for value in types)
            return list_of(ValueType(name="tuple", parts=parts), "iterator")
        special = SPECIAL.get(path)
        return RESULTS.get(path) if special is None else special(node, types, element, results)

    def _gather(self, node: ast.Call, types: list[Type]) -> Type:
        parts: list[Type] = []
        has_star = False
        for argument, whole in zip(node.args, types, strict=True):
            is_star = isinstance(argument, ast.Starred)
            has_star = has_star or is_star
            value = self._element(whole) if is_star else whole
            message = value_uses.not_gathered(argument, value)
            self._report(argument, message, value, CATCHES_TYPES, "not_awaited")
            parts.append(awaited(value))
        if node.keywords:
            return None
        return ValueType(
            name="task", item=ValueType(name="list", item=join_all(parts), parts=None if has_star else tuple(parts))
        )

    def _method(self, node: ast.Call, function: ast.Attribute) -> Type:
        value, method = self._receiver(function), function.attr
        types, _ = self._given(node)
        self._note_changes(method, function.value, value, node, types)
        if method == "setdefault" and len(types) == 2 and isinstance(node.args[1], ast.List | ast.Dict):
            return LIST if isinstance(node.args[1], ast.List) else DICT
        if value is None:
            path = self._path(function)
            return self._library(path, node, types) if path else None
        self._lambdas(node, self._element(value))
        if value.name == "str" and method == "join" and len(types) == 1:
            element = self.each(node.args[0], types[0])
            self._report(node, value_uses.bad_join(function.value, node.args[0], element), element, CATCHES_TYPES)
        if value.name == "dict" and method in ("get", "setdefault", "pop") and node.args:
            return self._got(node, value) if method == "get" else None
        return of_method(value, method)

    def _got(self, node: ast.Call, value: ValueType) -> Type:
        """`reply.get(key)`: a key that no reply has is certainly a mistake only if it is nearly one of them."""
        key = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if not isinstance(key, str) or value.keys is None or ANY_KEY in self._unsure or key in self._unsure:
            return None
        if key in value.keys:
            required = (value.schema or {}).get("required")
            return value.field(key) if isinstance(required, list) and key in required else None
        message = value_uses.no_key(value, key)
        if not self._is_quiet:
            reads = {node.slice for node in ast.walk(self._program.tree) if isinstance(node, ast.Subscript)}
            reads |= {
                use.node.args[0]
                for use in self._program.reader.calls
                if last_name(use.node.func) == "get" and use.node.args
            }
            constants = (other for other in ast.walk(self._program.tree) if isinstance(other, ast.Constant))
            if not any(other.value == key and other not in reads for other in constants):
                self.reports.append((Fault("reply", message, node, is_certain="did you mean" in message), GUARDED))
        return None


def _call_before(node: ast.expr) -> ast.Call | None:
    """`f(x)` in `f(x)["k"].lower()`, under an `await` that is for the call alone."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        owner = node.func if isinstance(node, ast.Call) else node
        if not isinstance(owner, ast.Subscript | ast.Attribute):
            return None
        inner = owner.value
        path = inner.func if isinstance(inner, ast.Call) else None
        while isinstance(path, ast.Attribute):
            path = path.value
        if isinstance(path, ast.Name) and isinstance(inner, ast.Call):
            return inner
        node = inner
    return None


def parameters_of(node: Function | ast.Lambda) -> list[str]:
    spec = node.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return names + [argument.arg for argument in (spec.vararg, spec.kwarg) if argument is not None]


_CONSTANTS: Final[dict[type, ValueType]] = {str: STR, int: INT, float: FLOAT, bool: BOOL, type(None): NONE}
# Any: the handlers in a table take the node type that they are listed under.
_EXPRESSIONS: Final[dict[type[ast.expr], Callable[[Expressions, Any], Type]]] = {
    ast.Constant: lambda _walk, node: _CONSTANTS.get(node.value.__class__),
    ast.Starred: lambda walk, node: walk.type_of(node.value),
    ast.Lambda: lambda walk, node: walk._lambda(node) and None,
    ast.BoolOp: lambda walk, node: join_all([used(walk.type_of(value)) for value in node.values]),
    ast.Name: Expressions._name, ast.JoinedStr: Expressions._text, ast.List: Expressions._display,
    ast.Set: Expressions._display, ast.Tuple: Expressions._display, ast.Dict: Expressions._dict,
    ast.ListComp: Expressions._comprehension, ast.SetComp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension, ast.GeneratorExp: Expressions._comprehension,
    ast.NamedExpr: Expressions._walrus, ast.IfExp: Expressions._choice, ast.UnaryOp: Expressions._unary,
    ast.BinOp: Expressions._binary, ast.Compare: Expressions._compare, ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript, ast.Await: Expressions._await, ast.Call: Expressions._call,
}  # fmt: skip
