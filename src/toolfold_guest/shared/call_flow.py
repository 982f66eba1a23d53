"""Flow of calls that a program does not await: which of them something may await later, and which nothing can.

Pure: a tree in, nodes of it out. An abstract interpretation of the whole program, without order and without branches:

1. Each expression and variable is a cell that collects abstract values: calls that are not made yet, coroutines of the
   program's own functions, functions, tools, containers. Values flow along assignments, arguments, returns and items.
2. A call that reaches an `await`, a function that awaits it, or code that is not in the text may be awaited: it stays
   as it is. Any other is made where it stands, for not to await it could only be a mistake.
3. Where the analysis does not know, it lets values flow further, or takes them for awaited.
"""

import ast
from collections.abc import Container, Iterable, Iterator
from functools import partial
from typing import Any, Final

from toolfold_guest.shared.flow_graph import (
    CONTAINER_METHODS,
    Box,
    Cell,
    FlowGraph,
    FlowValue,
    Scope,
    Site,
    bindings_of,
    constant_of,
    last_name,
    library_value,
    parameters_of,
)

_OF_AWAITABLES: Final = ("close", "send", "throw", "add_done_callback")
_KNOWN_METHODS: Final = frozenset(
    f"__{name}__"
    for name in (  # noqa: SIM905  # a list would have one word a line
        "init post_init new call enter exit aenter aexit getitem setitem delitem iter next aiter anext repr str len eq "
        "hash contains bool lt le gt ge ne format init_subclass del"
    ).split()
)
_DISPLAYS: Final = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BinOp, ast.ListComp, ast.DictComp)
_C_METHODS: Final = frozenset({"join", "write", "writelines", "writerow", "writerows", "execute", "executemany"})
_C_MODULES: Final = frozenset(
    {"re", "math", "statistics", "decimal", "Decimal", "fractions", "Fraction", "datetime", "date", "timedelta", "time",
     "pandas", "pd", "numpy", "np", "base64", "hashlib", "csv", "html", "io", "textwrap", "struct", "zlib", "sqlite3",
     "os", "pathlib", "Path", "uuid", "urllib", "unicodedata", "difflib", "string", "xml", "ipaddress", "zoneinfo"}
)  # fmt: skip
"""What reads its arguments in C, where a call cannot stand for its value."""


class CallFlow(FlowGraph):
    """What to make in place in one program.

    Args:
        tree: The program.
        tools: The names under which it can call tools.
    """

    def __init__(self, tree: ast.Module, tools: Container[str]) -> None:
        super().__init__()
        self._tools = tools
        self._statements: list[ast.Expr] = []
        self._comprehensions: list[ast.ListComp] = []
        self._subjects: list[ast.expr] = []
        self._returned: dict[ast.expr, ast.AST] = {}
        """Calls that a synchronous function gives back as they are, and that function."""
        self._raised = self._cell()
        self._scope = self._module
        self._survey(tree)
        self._module.cells.update({name: self._cell() for name in bindings_of(tree.body)})
        self._block(tree.body)
        self._settle()
        self._call_unknown()
        self._keep_choices()

    def sites_in_place(self) -> Iterator[tuple[ast.Call, bool]]:
        """Calls that nothing can await, and whether `await` may stand there."""
        by_site: dict[ast.Call, list[FlowValue]] = {}
        for value in self._pending:
            if value.node is not None:
                by_site.setdefault(value.node, []).append(value)
        for node, values in by_site.items():
            is_async = self._sites[node][0]
            is_coroutine = any(value.kind == "coroutine" for value in values)
            is_pending = any(value.kind == "pending" and not self._is_synchronous(value.other) for value in values)
            if any(map(self._may_be_awaited, values)) or not (is_pending or is_coroutine):
                continue
            callers = [node] if is_async else self._callers.get(self._returned.get(node, node), {None: None})
            # Where the function only gives the call back, whoever calls it can await it.
            if all(map(self._can_await, callers)):
                yield from ((caller, True) for caller in callers if caller is not None)
            elif is_pending:
                yield node, False

    def _can_await(self, caller: ast.Call | None) -> bool:
        if caller is None or not self._sites[caller][0]:
            return False
        return not any(value in self._awaited for value in self._sites[caller][1].result.values)

    def lists(self, names: Container[str]) -> Iterator[tuple[ast.ListComp, bool]]:
        """List comprehensions of nothing but calls of these tools, and whether something may await them."""
        sites = {value.node for value in self._pending}
        for node in self._comprehensions:
            call = node.elt
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
                others = [value for value in self._pending if value.node is call]
                inner = [part for part in ast.walk(node) if isinstance(part, ast.Await) or part in sites]
                if others and inner == [call]:
                    yield node, any(map(self._may_be_awaited, others))

    def synchronous_names(self) -> list[ast.Name]:
        """Tools handed to code that is not in the text and awaits nothing."""
        names = {value.other for value in self._pending if value.kind == "pending" and value.node is None}
        return [
            node
            for node in names
            if isinstance(node, ast.Name) and not any(map(self._may_be_awaited, self._calls_by(node)))
        ]

    def awaitable_references(self) -> list[ast.Attribute | ast.Call]:
        """`tools.x`, and `getattr(tools, x)`, whose calls something may await."""
        nodes = dict.fromkeys(value.other for value in self._pending if self._is_synchronous(value.other))
        return [node for node in nodes if any(map(self._may_be_awaited, self._calls_by(node)))]

    def dropped(self) -> Iterator[ast.Expr]:
        """Statements that are only an expression, with calls that something else may await."""
        for statement in self._statements:
            is_method = getattr(getattr(statement.value, "func", None), "attr", "") in CONTAINER_METHODS
            if not is_method and any(map(self._holds_call, self._cells[statement.value].values)):
                yield statement

    def value_uses(self) -> Iterator[ast.expr]:
        """Expressions that may hold a call, where only its value can be meant."""
        for node, (_, site) in self._sites.items():
            function = node.func
            is_method = isinstance(function, ast.Attribute) and function.attr in _C_METHODS
            if is_method or _root_name(function) in _C_MODULES:
                expressions = [*node.args, *(keyword.value for keyword in node.keywords)]
                for expression, (_, cell) in zip(expressions, site.arguments, strict=True):
                    if any(map(self._holds_call, cell.values)):
                        yield expression
        for subject in self._subjects:
            if any(value in self._pending and self._holds_call(value) for value in self._cells[subject].values):
                yield subject

    def _calls_by(self, reference: Any) -> list[FlowValue]:
        return [value for value in self._pending if value.other is reference]

    def _may_be_awaited(self, value: FlowValue) -> bool:
        return self._all_awaited or value in self._awaited

    def _is_synchronous(self, reference: Any) -> bool:
        """Attributes of `tools` are synchronous unless the compiler makes them something else."""
        return isinstance(reference, ast.Attribute) or (
            isinstance(reference, ast.Call) and getattr(reference.func, "id", "") == "getattr"
        )

    def _holds_call(self, value: Any) -> bool:
        visited = {id(value)}
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Box):
                waiting += [item for item in value.everything.values if id(item) not in visited]
                visited.update(map(id, value.everything.values))
            elif value.kind == "pending" and self._may_be_awaited(value):
                return True
        return False

    def _call_unknown(self) -> None:
        """Calls of what nothing is known of."""
        for site in [site for _, site in self._sites.values() if not self._cells[site.node.func].values]:
            if site.receiver is None:
                self._apply(FlowValue("unknown"), site)
            elif not site.receiver.values:
                name = site.node.func.attr  # type: ignore[attr-defined]  # an attribute has a receiver
                self._call_method_of(Box(self._work), name, site)
        self._settle()

    def _keep_choices(self) -> None:
        """Where one of the calls in a container or among arguments may be awaited, the program chooses among them."""
        displays = [box.everything.values for node, box in self._boxes.items() if isinstance(node, _DISPLAYS)]
        arguments = [
            [value for _, cell in site.arguments for value in cell.values]
            for _, site in self._sites.values()
            if len(site.arguments) > 1
        ]
        for values in (*displays, *arguments):
            calls = [value for value in values if value in self._pending]
            if any(map(self._may_be_awaited, calls)):
                self._awaited.update(dict.fromkeys(calls))

    # What each statement and expression lets flow where

    def _survey(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef(body=body):
                    for statement in body:
                        match statement:
                            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                                self._own_attributes.add(name)
                                if name.startswith("__") and name not in _KNOWN_METHODS:
                                    self._all_awaited = True
                            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                                self._own_attributes.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    self._own_attributes.add(name)
                case ast.Call(func=ast.Name(id="exec" | "eval")):
                    self._all_awaited = True

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    # One table of all statements.
    def _statement(self, node: ast.stmt) -> None:  # noqa: C901
        match node:
            case ast.Expr(value=value):
                self._expression(value)
                self._statements.append(node)
            case ast.Assign(targets=targets, value=value):
                cell = self._expression(value)
                for target in targets:
                    self._assign(target, cell)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self._assign(target, self._expression(value))
            case ast.AugAssign(target=target, value=value):
                self._extend(target, self._expression(value))
            case ast.For() | ast.AsyncFor():
                self._assign(node.target, self._items(self._expression(node.iter)))
                self._block(node.body)
                self._block(node.orelse)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._enter(item)
                self._block(node.body)
            case ast.Return(value=value):
                if value is not None:
                    cell = self._expression(value)
                    if isinstance(self._scope.node, ast.FunctionDef):
                        self._returned[value] = self._scope.node
                    cell.read(self._scope.returns.add)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._define(node)
            case ast.ClassDef():
                self._define_class(node)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Raise(exc=error):
                if error is not None:
                    self._spread(self._expression(error), self._raised.add)
            case ast.Match(subject=subject, cases=cases):
                self._match(subject, cases)
            case _:
                self._parts(node)

    def _parts(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._expression(child)
            elif isinstance(child, ast.stmt):
                self._statement(child)
            elif isinstance(child, ast.ExceptHandler):
                if child.name is not None:
                    self._raised.read(self._variable(child.name).add)
                self._parts(child)

    def _match(self, subject: ast.expr, cases: list[ast.match_case]) -> None:
        cell = self._expression(subject)
        self._subjects.append(subject)
        parts = self._cell()
        self._spread(cell, parts.add)
        for case in cases:
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    parts.read(self._variable(name).add)
            if case.guard is not None:
                self._expression(case.guard)
            self._block(case.body)

    def _enter(self, item: ast.withitem) -> None:
        cell = self._expression(item.context_expr)
        if item.optional_vars is None:
            return
        result = self._cell()
        cell.read(result.add)
        self._items(cell, into=result)
        for name in ("__enter__", "__aenter__"):
            self._attribute(name).read(lambda method: self._give_returns(method, result))
        self._assign(item.optional_vars, result)

    def _variable(self, name: str) -> Cell:
        cell = self._scope.find(name)
        if cell is None:
            cell = self._module.cells[name] = self._cell()
        return cell

    def _assign(self, target: ast.expr, cell: Cell) -> None:
        match target:
            case ast.Name(id=name):
                cell.read(self._variable(name).add)
            case ast.Attribute(value=receiver, attr=name):
                self._expression(receiver)
                cell.read(self._attribute(name).add)
            case ast.Subscript(value=receiver, slice=index):
                self._expression(index)
                self._store(self._expression(receiver), cell, constant_of(index))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                has_rest = any(isinstance(element, ast.Starred) for element in elements)
                for key, element in enumerate(elements):
                    if isinstance(element, ast.Starred):
                        box = self._box(element)
                        self._items(cell, into=box.any_key)
                        rest = self._cell(box)
                        self._assign(element.value, rest)
                    else:
                        self._assign(element, self._items(cell, None if has_rest else key))
            case ast.Starred(value=value):
                self._assign(value, cell)

    def _extend(self, target: ast.expr, cell: Cell) -> None:
        """`target += cell`."""
        match target:
            case ast.Name(id=name):
                self._store(self._variable(name), self._items(cell))
            case ast.Attribute(attr=name):
                self._store(self._attribute(name), self._items(cell))
            case ast.Subscript(value=receiver, slice=index):
                self._store(self._items(self._expression(receiver), constant_of(index)), self._items(cell))
        self._assign(target, cell)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        is_method = self._scope.is_class
        decorators = [self._expression(decorator) for decorator in node.decorator_list]
        names = {last_name(decorator) for decorator in node.decorator_list}
        self._function(node, node.args)
        offset = 1 if is_method and "staticmethod" not in names else 0
        cell = self._cell(FlowValue("function", node, offset))
        for decorator in reversed(decorators):
            result = self._cell()
            site = Site(ast.Call(ast.Name("", ast.Load()), [], []), [("", cell)], result, None)
            decorator.read(partial(self._apply, site=site))
            cell = result
        cell.read(self._variable(node.name).add)
        if is_method and ("property" in names or "cached_property" in names):
            self._scopes[node].returns.read(self._attribute(node.name).add)

    def _function(self, node: Any, arguments: ast.arguments) -> None:
        names = [argument.arg for argument in parameters_of(arguments)]
        body = node.body if isinstance(node.body, list) else [node.body]
        cells = {name: self._cell() for name in (*names, *bindings_of(body))}
        scope = Scope(self._scope, cells, self._cell(), is_async=isinstance(node, ast.AsyncFunctionDef))
        scope.node = node
        self._scopes[node] = scope
        self._bind_defaults(arguments, scope)
        for argument in (arguments.vararg, arguments.kwarg):
            if argument is not None:
                scope.cells[argument.arg].add(self._box(argument))
        outer, self._scope = self._scope, scope
        if isinstance(node, ast.Lambda):
            self._expression(node.body).read(scope.returns.add)
            self._returned[node.body] = node
        else:
            self._block(node.body)
        self._scope = outer

    def _bind_defaults(self, arguments: ast.arguments, scope: Scope) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, default in pairs:
            if default is not None:
                self._expression(default).read(scope.cells[argument.arg].add)

    def _define_class(self, node: ast.ClassDef) -> None:
        for part in (*node.bases, *(keyword.value for keyword in node.keywords), *node.decorator_list):
            self._expression(part)
        cells = {name: self._cell() for name in bindings_of(node.body)}
        scope = Scope(self._scope, cells, self._cell(), is_async=False)
        scope.is_class = True
        outer, self._scope = self._scope, scope
        self._block(node.body)
        self._scope = outer
        for name, cell in scope.cells.items():
            cell.read(self._attribute(name).add)
        self._variable(node.name).add(FlowValue("class", node))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = getattr(node, "module", None) or ""
        for alias in node.names:
            path = f"{module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            name = alias.asname or alias.name.partition(".")[0]
            if isinstance(node, ast.Import) and alias.asname is None:
                path = path.partition(".")[0]
            cell = self._variable(name)
            if path.partition(".")[0] == "tools" and not getattr(node, "level", 0):
                cell.add(FlowValue("module", alias))
                if isinstance(node, ast.ImportFrom):
                    cell.add(FlowValue("reference", alias))
            else:
                cell.add(library_value(path))

    def _expression(self, node: ast.expr) -> Cell:
        cell = self._cells[node] = self._cell()
        method = getattr(self, "_on_" + type(node).__name__.lower(), None)
        if method is not None:
            method(node, cell)
        else:
            self._parts(node)
        return cell

    def _on_name(self, node: ast.Name, cell: Cell) -> None:
        variable = self._scope.find(node.id)
        if variable is not None:
            variable.read(cell.add)
        elif node.id == "tools":
            cell.add(FlowValue("module", node))
        elif node.id in self._tools:
            cell.add(FlowValue("reference", node))
        else:
            cell.add(library_value(node.id))

    def _attribute_of(self, value: Any, node: ast.Attribute, cell: Cell) -> None:
        name = node.attr
        if isinstance(value, Box):
            cell.add(value)
            if name not in CONTAINER_METHODS:
                value.everything.read(cell.add)
        elif value.kind == "module":
            cell.add(FlowValue("reference", node))
            cell.add(FlowValue("module", node))
        elif value.kind == "library":
            cell.add(library_value(f"{value.node}.{name}"))
        elif value.kind in ("pending", "coroutine"):
            if name in _OF_AWAITABLES or name.startswith(("_", "cr_")):
                self._hand_out(value)
            elif value.kind == "pending":
                self._attribute_of(self._reply(value), node, cell)
        elif value.kind in ("unknown", "future", "reference"):
            cell.add(value)  # `tool.pages`, `task.result`

    def _on_attribute(self, node: ast.Attribute, cell: Cell) -> None:
        receiver = self._expression(node.value)
        receiver.read(lambda value: self._attribute_of(value, node, cell))
        if not isinstance(node.ctx, ast.Load):
            return

        def read(value: Any) -> None:
            is_method = not isinstance(value, Box) and value.kind == "function" and value.other == 1
            is_bound = is_method and "classmethod" in map(last_name, value.node.decorator_list)
            if (
                is_method
                and not is_bound
                and any(not isinstance(base, Box) and base.kind == "class" for base in receiver.values)
            ):
                value = FlowValue("function", value.node, 0)
            elif is_method:
                for parameter in parameters_of(value.node.args)[:1]:
                    receiver.read(self._scopes[value.node].cells[parameter.arg].add)
            cell.add(value)

        if node.attr in self._own_attributes:
            self._attribute(node.attr).read(read)

    def _on_await(self, node: ast.Await, cell: Cell) -> None:
        self._expression(node.value).read(lambda value: self._await(value, cell))

    def _on_call(self, node: ast.Call, cell: Cell) -> None:
        callee = self._expression(node.func)
        receiver = self._cells[node.func.value] if isinstance(node.func, ast.Attribute) else None
        arguments = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                arguments.append(("*", self._items(self._expression(argument.value))))
            else:
                arguments.append(("", self._expression(argument)))
        for keyword in node.keywords:
            value = self._expression(keyword.value)
            arguments.append((keyword.arg, value) if keyword.arg else ("**", self._items(value)))
        site = Site(node, arguments, cell, receiver)
        self._sites[node] = self._scope.is_async, site
        if receiver is None:
            callee.read(lambda value: self._apply(value, site))
        else:
            name = node.func.attr  # type: ignore[attr-defined]  # an attribute has a receiver
            callee.read(lambda value: None if isinstance(value, Box) else self._apply(value, site))
            receiver.read(lambda value: self._call_method_of(value, name, site))

    def _on_lambda(self, node: ast.Lambda, cell: Cell) -> None:
        self._function(node, node.args)
        cell.add(FlowValue("function", node, 0))

    def _on_list(self, node: ast.List | ast.Set, cell: Cell) -> None:
        box = self._box(node, into=cell)
        for element in node.elts:
            if isinstance(element, ast.Starred):
                self._items(self._expression(element.value), into=box.any_key)
            else:
                self._expression(element).read(box.any_key.add)

    _on_set = _on_list

    def _on_tuple(self, node: ast.Tuple, cell: Cell) -> None:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            self._on_list(node, cell)  # type: ignore[arg-type]  # its elements are all that is asked for
            return
        box = self._box(node, into=cell)
        for key, element in enumerate(node.elts):
            self._expression(element).read(box.field(key).add)

    def _on_dict(self, node: ast.Dict, cell: Cell) -> None:
        box = self._box(node, into=cell)
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self._items(self._expression(value), into=box.any_key)
                continue
            self._expression(key)
            constant = constant_of(key)
            self._expression(value).read((box.any_key if constant is None else box.field(constant)).add)

    def _on_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, cell: Cell) -> None:
        box = self._box(node, into=cell)
        outer = self._scope
        is_async = outer.is_async and not isinstance(node, ast.GeneratorExp)
        names = bindings_of([generator.target for generator in node.generators])
        self._scope = Scope(outer, {name: self._cell() for name in names}, outer.returns, is_async=is_async)
        for index, generator in enumerate(node.generators):
            inner, self._scope = self._scope, outer if index == 0 else self._scope
            items = self._items(self._expression(generator.iter))
            self._scope = inner
            self._assign(generator.target, items)
            for test in generator.ifs:
                self._expression(test)
        if isinstance(node, ast.DictComp):
            self._expression(node.key)
            self._expression(node.value).read(box.any_key.add)
        else:
            self._expression(node.elt).read(box.any_key.add)
        if isinstance(node, ast.ListComp):
            self._comprehensions.append(node)
        self._scope = outer

    _on_setcomp = _on_generatorexp = _on_dictcomp = _on_listcomp

    def _on_subscript(self, node: ast.Subscript, cell: Cell) -> None:
        receiver = self._expression(node.value)
        self._expression(node.slice)
        if isinstance(node.slice, ast.Slice):
            box = self._box(node)
            self._items(receiver, into=box.any_key)
            cell.add(box)
        else:
            self._items(receiver, constant_of(node.slice), cell)

    def _on_binop(self, node: ast.BinOp, cell: Cell) -> None:
        box = self._box(node)
        for part in (node.left, node.right):
            self._items(self._expression(part), into=box.any_key)
        cell.add(box)

    def _on_boolop(self, node: ast.BoolOp, cell: Cell) -> None:
        for value in node.values:
            self._expression(value).read(cell.add)

    def _on_ifexp(self, node: ast.IfExp, cell: Cell) -> None:
        self._expression(node.test)
        for value in (node.body, node.orelse):
            self._expression(value).read(cell.add)

    def _on_namedexpr(self, node: ast.NamedExpr, cell: Cell) -> None:
        self._expression(node.value).read(cell.add)
        cell.read(self._variable(node.target.id).add)

    def _on_starred(self, node: ast.Starred, cell: Cell) -> None:
        self._items(self._expression(node.value), into=cell)

    def _on_yield(self, node: ast.Yield, cell: Cell) -> None:
        box = self._yields(node)
        if node.value is not None:
            self._expression(node.value).read(box.any_key.add)

    def _on_yieldfrom(self, node: ast.YieldFrom, cell: Cell) -> None:
        self._items(self._expression(node.value), into=self._yields(node).any_key)

    def _yields(self, node: ast.AST) -> Box:
        if self._scope.yields is None:
            self._scope.yields = self._box(node)
        return self._scope.yields


def _root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
