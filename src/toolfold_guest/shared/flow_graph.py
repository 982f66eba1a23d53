"""Flow graph of a program: cells of abstract values, what flows from one to another, and calls.

Calls hand arguments to parameters and results back; libraries do with what they are given whatever they may.
"""

import ast
import builtins
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from toolfold_guest.shared.call_style import AWAITERS

MOST_STEPS: Final = 200_000
_GATHERERS: Final = AWAITERS | {"run_coroutine_threadsafe", "Task", "start_soon", "run", "run_until_complete"}
_RUNNERS: Final = frozenset({"run", "run_until_complete"})
_THREADS: Final = frozenset({"to_thread", "run_in_executor", "run_sync"})
_QUIET_ASYNC: Final = frozenset(
    {"Queue", "PriorityQueue", "LifoQueue", "Semaphore", "BoundedSemaphore", "Lock", "Event", "Condition", "sleep",
     "TaskGroup", "Runner", "get_event_loop", "get_running_loop", "new_event_loop", "Barrier"}
)  # fmt: skip
_ASYNC_MODULES: Final = frozenset({"asyncio", "anyio", "trio", "uvloop", "inspect", "types", "nest_asyncio"})
_LIBRARIES: Final = frozenset(
    {"pd", "np", "plt", "pandas", "numpy", "matplotlib", "scipy", "sklearn", "statsmodels", "PIL", "rich", "tabulate",
     "tqdm", "yaml", "pydantic", "seaborn", "sns", "dateutil", "pytz", "sympy", "networkx", "openpyxl", "ToolError",
     "display", "final_answer"}
)  # fmt: skip
_BUILTINS: Final = frozenset(dir(builtins))
_DECORATORS: Final = frozenset({"functools", "dataclasses", "collections", "contextlib", "typing", "enum", "abc"})
"""Modules that keep functions, and call none at once."""
_CHANGING: Final = frozenset({"heapq", "bisect", "operator"})
"""Modules that put an argument into the first one."""
_INVOKERS: Final = frozenset({"map", "filter", "sorted", "min", "max", "iter"})
_PLAIN_RESULTS: Final = frozenset(
    {"print", "len", "str", "repr", "int", "float", "bool", "format", "round", "abs", "isinstance", "hash", "ord",
     "chr", "range", "any", "all", "open", "input", "hasattr", "issubclass", "bytes"}
)  # fmt: skip
"""Builtins that give nothing back of what they are given."""
_STORING: Final = frozenset(
    {"append", "add", "extend", "insert", "update", "setdefault", "put", "put_nowait", "appendleft", "extendleft",
     "push", "__setitem__"}
)  # fmt: skip
_PLAIN_METHODS: Final = frozenset(
    {"join", "format", "write", "startswith", "endswith", "split", "replace", "strip", "count", "index", "execute",
     "remove", "discard", "writelines", "writerow", "writerows", "encode", "lower", "upper"}
)  # fmt: skip

CONTAINER_METHODS: Final = _STORING | _PLAIN_METHODS | {
    "pop", "get", "values", "items", "keys", "copy", "sort", "reverse", "clear", "popleft", "popitem", "get_nowait",
}  # fmt: skip
_NEW_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class FlowValue(NamedTuple):
    """An abstract value: `kind` says what it is, and `node` where it comes from."""

    kind: str
    # Any: a node, a name or a cell, as the kind has it.
    node: Any = None
    other: Any = None


class Cell:
    """Values that may be here, and who hears of each."""

    __slots__ = ("_work", "readers", "values")

    def __init__(self, work: list[tuple[Callable[[Any], None], Any]]) -> None:
        self.values: dict[Any, None] = {}
        self.readers: list[Callable[[Any], None]] = []
        self._work = work

    def add(self, value: Any) -> None:
        if value not in self.values:
            self.values[value] = None
            for reader in self.readers:
                self._work.append((reader, value))

    def read(self, reader: Callable[[Any], None]) -> None:
        self.readers.append(reader)
        for value in self.values:
            self._work.append((reader, value))


class Box:
    """A container: items of known keys, items of any, and all of them."""

    __slots__ = ("any_key", "everything", "fields", "is_queue")

    def __init__(self, work: Any) -> None:
        self.fields: dict[Any, Cell] = {}
        self.any_key, self.everything = Cell(work), Cell(work)
        self.any_key.read(self.everything.add)
        self.is_queue = False

    def field(self, key: Any) -> Cell:
        cell = self.fields.get(key)
        if cell is None:
            cell = self.fields[key] = Cell(self.any_key._work)
            cell.read(self.everything.add)
        return cell


class Scope:
    """The names of a function, a class, a comprehension or the program."""

    __slots__ = ("cells", "is_async", "is_class", "node", "parent", "returns", "yields")

    def __init__(self, parent: "Scope | None", cells: dict[str, Cell], returns: Cell, *, is_async: bool) -> None:
        self.parent, self.cells, self.returns, self.is_async = parent, cells, returns, is_async
        self.is_class = False
        self.node: ast.AST | None = None
        self.yields: Box | None = None

    def find(self, name: str) -> Cell | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.cells and (scope is self or not scope.is_class):
                return scope.cells[name]
            scope = scope.parent
        return None


class Site(NamedTuple):
    """A call in the text."""

    node: ast.Call
    arguments: list[tuple[str, Cell]]
    """By keyword; `*` and `**` for what is unpacked, empty for a position."""
    result: Cell
    receiver: Cell | None


class FlowGraph:
    """The cells of one program, and the calls in them."""

    def __init__(self) -> None:
        self._work: list[tuple[Callable[[Any], None], Any]] = []
        self._cells: dict[ast.AST, Cell] = {}
        self._boxes: dict[ast.AST, Box] = {}
        self._attributes: dict[str, Cell] = {}
        self._scopes: dict[ast.AST, Scope] = {}
        self._module = Scope(None, {}, self._cell(), is_async=True)
        self._sites: dict[ast.Call, tuple[bool, Site]] = {}
        """Calls, and whether they stand where `await` may."""
        self._callers: dict[ast.AST, dict[ast.Call | None, None]] = {}
        """By function: where it is called, and `None` for code that is not in the text."""
        self._pending: dict[FlowValue, None] = {}
        """Calls of tools that are not made yet, and coroutines of the program's own functions."""
        self._awaited: dict[Any, None] = {}
        """What something may await."""
        self._links: dict[Any, Cell] = {}
        self._all_awaited = False
        """The program does what is not followed here."""
        self._own_attributes: set[str] = set()
        """Names of attributes that the program defines."""

    def _cell(self, *values: Any) -> Cell:
        cell = Cell(self._work)
        cell.values.update(dict.fromkeys(values))
        return cell

    def _box(self, node: ast.AST, *, is_nested: bool = False, into: Cell | None = None) -> Box:
        box = self._boxes.get(node)
        if box is None:
            box = self._boxes[node] = Box(self._work)
            if is_nested:  # items of items of unknown depth
                box.any_key.add(box)
        if into is not None:
            into.add(box)
        return box

    def _call(self, kind: str, site: ast.Call | None, callee: Any) -> FlowValue:
        """A call that is not made yet: of a tool, or a coroutine of the program's own."""
        call = FlowValue(kind, site if site in self._sites else None, callee)
        self._pending[call] = None
        return call

    def _attribute(self, name: str) -> Cell:
        return self._attributes.setdefault(name, self._cell())

    def _settle(self) -> None:
        work = self._work
        for _ in range(MOST_STEPS):
            if not work:
                return
            reader, value = work.pop()
            reader(value)
        self._all_awaited = True  # too much to follow: each call is made when it is needed
        work.clear()

    def _items(self, cell: Cell, key: Any = None, into: Cell | None = None) -> Cell:
        """The items of whatever is in a cell."""
        result = into or self._cell()

        def read(value: Any) -> None:
            if isinstance(value, Box):
                if key is None:
                    value.everything.read(result.add)
                else:
                    value.field(key).read(result.add)
                    value.any_key.read(result.add)
            elif value.kind in ("unknown", "reference", "module"):
                result.add(value)
            elif value.kind == "pending":
                read(self._reply(value))
            elif value.kind == "instance":
                for name in ("__iter__", "__next__", "__aiter__", "__anext__", "__getitem__"):
                    self._attribute(name).read(lambda method: self._give_returns(method, result))

        cell.read(read)
        return result

    def _reply(self, call: FlowValue) -> Box:
        """What a tool gives: a program may put something into it."""
        return self._box(call.other if call.node is None else call.node.func, is_nested=True)

    def _give_returns(self, method: Any, result: Cell) -> None:
        link = method, id(result)
        if isinstance(method, Box) or method.kind != "function" or link in self._links:
            return
        self._links[link] = result  # which keeps its id from being another's
        scope = self._scopes[method.node]
        scope.returns.read(result.add)
        self._items(scope.returns, into=result)
        if scope.yields is not None:
            scope.yields.everything.read(result.add)

    def _spread(self, cell: Cell, reader: Callable[[Any], None]) -> None:
        """Have a cell's values, their items, and theirs, read."""
        visited: set[int] = set()

        def read(value: Any) -> None:
            reader(value)
            if isinstance(value, Box) and id(value) not in visited:
                visited.add(id(value))
                value.everything.read(read)

        cell.read(read)

    def _await(self, value: Any, results: Cell) -> None:
        kind = "container" if isinstance(value, Box) else value.kind
        if kind == "future":
            value.node.read(results.add)
        elif kind == "coroutine":
            self._awaited[value] = None
            self._scopes[value.other].returns.read(results.add)
        elif kind == "pending":
            self._awaited[value] = None
            results.add(self._reply(value))
        else:
            results.add(value)

    def _hand_out(self, value: Any) -> None:
        """Code that is not in the text may do with it what it likes."""
        if value in self._awaited:
            return
        self._awaited[value] = None
        if isinstance(value, Box):
            value.everything.read(self._hand_out)
        elif value.kind == "function":
            self._scopes[value.node].returns.read(self._hand_out)
        elif value.kind == "reference":
            self._awaited[self._call("pending", None, value.node)] = None
        elif value.kind == "coroutine":
            self._await(value, self._cell())

    # Calls

    def _apply(self, value: Any, site: Site) -> None:
        """A value is called."""
        if isinstance(value, Box):
            for _, cell in site.arguments:
                self._spread(cell, value.any_key.add)
            value.everything.read(site.result.add)
            return
        match value.kind:
            case "reference":
                site.result.add(self._call("pending", site.node, value.node))
            case "function":
                self._pass(value, site)
            case "class":
                self._create(value.node, site)
            case "instance":
                self._attribute("__call__").read(lambda method: self._apply(method, site))
            case "library":
                self._call_library(value.node, site)
            case "unknown":
                for _, cell in site.arguments:
                    cell.read(self._hand_out)
                site.result.add(value)
            case "future":
                value.node.read(site.result.add)

    def _pass(self, value: FlowValue, site: Site) -> None:
        """Arguments to the parameters of a function of the program, and what it gives back."""
        arguments: ast.arguments = value.node.args
        scope = self._scopes[value.node]
        positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][value.other :]
        names = {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
        rest = self._box(arguments.vararg).any_key if arguments.vararg else None
        keywords = self._box(arguments.kwarg).any_key if arguments.kwarg else None
        position = 0
        for keyword, cell in site.arguments:
            if keyword in ("*", "**"):
                targets = [scope.cells[name] for name in (positional[position:] if keyword == "*" else names)]
                targets += [box for box in (rest if keyword == "*" else keywords,) if box is not None]
            elif keyword:
                targets = [scope.cells[keyword]] if keyword in names else [keywords] if keywords else []
            else:
                targets = [scope.cells[positional[position]]] if position < len(positional) else [rest] if rest else []
                position += 1
            for target in targets:
                cell.read(target.add)
        self._give_result(value.node, site.result, site.node)

    def _give_result(self, node: Any, result: Cell, site: ast.Call | None) -> None:
        scope = self._scopes[node]
        self._callers.setdefault(node, {})[site if site in self._sites else None] = None
        if scope.yields is not None:
            result.add(scope.yields)
            scope.returns.read(scope.yields.any_key.add)
        elif isinstance(node, ast.AsyncFunctionDef):
            result.add(self._call("coroutine", site, node))
        else:
            scope.returns.read(result.add)

    def _pass_all(self, method: Any, cells: list[Cell], result: Cell) -> None:
        """Code that is not in the text calls a function with any of these."""
        if isinstance(method, Box):
            return
        if method.kind == "reference":
            result.add(self._call("pending", None, method.node))
        elif method.kind == "function":
            for argument in parameters_of(method.node.args):
                for cell in cells:
                    self._spread(cell, self._scopes[method.node].cells[argument.arg].add)
            self._give_result(method.node, result, None)

    def _store(self, receiver: Cell, cell: Cell, key: Any = None) -> None:
        def read(value: Any) -> None:
            if isinstance(value, Box):
                cell.read((value.any_key if key is None else value.field(key)).add)
            elif value.kind == "pending":
                cell.read(self._reply(value).any_key.add)
            elif value.kind == "unknown":
                cell.read(self._hand_out)
            elif value.kind == "instance":
                self._attribute("__setitem__").read(lambda method: self._pass_all(method, [cell], self._cell()))

        receiver.read(read)

    def _create(self, node: ast.ClassDef, site: Site) -> None:
        instance = FlowValue("instance", node)
        site.result.add(instance)
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        for part in methods:
            for parameter in parameters_of(part.args)[:1]:
                self._scopes[part].cells[parameter.arg].add(instance)
            self._pass(FlowValue("function", part, 1), site._replace(result=self._cell()))
        if methods:
            return
        box = self._box(site.node, into=site.result)
        for _, cell in site.arguments:
            self._spread(cell, box.any_key.add)  # it may be a container itself
        cells = [site.result, *(cell for _, cell in site.arguments)]
        for name in ("__init__", "__post_init__"):
            self._attribute(name).read(lambda method: self._pass_all(method, cells, self._cell()))

    def _call_method_of(self, value: Any, name: str, site: Site) -> None:
        """A method of a container."""
        if not isinstance(value, Box):
            if value.kind == "pending":
                self._call_method_of(self._reply(value), name, site)
            return
        if name in _GATHERERS or name in _THREADS:
            self._call_library(f"asyncio.{name}", site)
            return
        if value.is_queue and name in ("get", "join"):
            site.result.add(FlowValue("future", value.everything if name == "get" else self._cell()))
            return
        if name not in _PLAIN_METHODS and not (value.is_queue and name == "put"):
            value.everything.read(site.result.add)
            box = self._box(site.node, is_nested=True, into=site.result)
            value.everything.read(box.any_key.add)
        if name not in _STORING:
            self._call_plain(site, [cell for _, cell in site.arguments if name not in _PLAIN_METHODS])
        else:
            for _, cell in site.arguments:
                cell.read(value.any_key.add)
                if name not in ("append", "add", "put", "put_nowait", "appendleft"):
                    self._items(cell, into=value.any_key)

    def _call_plain(self, site: Site, cells: list[Cell], *, invokes: bool = True) -> None:
        """It may give back any argument, in whatever container, and call what can be called."""
        box = self._box(site.node, is_nested=True)
        for cell in cells:
            self._spread(cell, site.result.add)
            self._spread(cell, box.any_key.add)
            if invokes:
                cell.read(lambda value: self._pass_all(value, cells, box.any_key))
        site.result.add(box)

    def _call_library(self, name: str, site: Site) -> None:
        cells = [cell for _, cell in site.arguments]
        root, last = name.partition(".")[0], name.rpartition(".")[2]
        if name in _PLAIN_RESULTS:
            text = ast.unparse(site.node) if name in ("isinstance", "hasattr") else ""
            if "wait" in text or "orout" in text:  # it asks whether it has to await
                for cell in cells:
                    cell.read(self._hand_out)
        elif name == "getattr":
            self._get_attribute(site)
        elif last == "import_module" and "tools" in ast.unparse(site.node):
            site.result.add(FlowValue("module", site.node))
        elif name == "setattr":
            for cell in cells[2:]:
                cell.read(self._hand_out)
        elif name in ("globals", "locals", "vars"):
            box = self._box(site.node, into=site.result)
            box.any_key.add(FlowValue("reference", site.node))
            for cell in list(self._module.cells.values()):
                cell.read(box.any_key.add)
        elif root not in _ASYNC_MODULES or last == "SimpleNamespace":
            if root in _CHANGING:
                for cell in cells[1:]:
                    self._store(cells[0], cell)
            self._call_plain(site, cells, invokes=name not in _BUILTINS - _INVOKERS and root not in _DECORATORS)
        else:
            self._call_async(last, site, cells)

    def _call_async(self, last: str, site: Site, cells: list[Cell]) -> None:
        """A function of `asyncio` and its like."""
        if last in _THREADS:
            self._call_plain(site._replace(result=(results := self._cell())), cells)
            site.result.add(FlowValue("future", self._items(results)))
        elif last in _GATHERERS:
            self._gather(last, site, cells)
        elif last in _QUIET_ASYNC:
            box = self._box(site.node)
            box.is_queue = last.endswith("Queue")
            site.result.add(box)
        else:
            for cell in cells:
                cell.read(self._hand_out)

    def _gather(self, name: str, site: Site, cells: list[Cell]) -> None:
        results = self._cell()
        for cell in cells:
            self._spread(cell, lambda value: None if isinstance(value, Box) else self._await(value, results))
        if name in _RUNNERS:
            results.read(site.result.add)
            return
        box = self._box(site.node, is_nested=name == "wait")
        whole = self._cell(box)
        if name == "gather":
            results.read(box.any_key.add)
        else:
            box.any_key.add(FlowValue("future", results))
        if name == "as_completed":
            site.result.add(box)
        else:
            site.result.add(FlowValue("future", whole if name in ("gather", "wait") else results))

    def _get_attribute(self, site: Site) -> None:
        def read(value: Any) -> None:
            if isinstance(value, Box):
                value.everything.read(site.result.add)
            elif value.kind == "module":
                site.result.add(FlowValue("reference", site.node))
            elif value.kind in ("unknown", "library"):
                site.result.add(FlowValue("unknown"))

        for _, cell in site.arguments[:1]:
            cell.read(read)
        for name in self._own_attributes:
            self._attribute(name).read(site.result.add)
        for _, cell in site.arguments[2:]:
            cell.read(site.result.add)


def library_value(path: str) -> FlowValue:
    """What a name stands for that the program does not define."""
    root = path.partition(".")[0]
    is_library = root in sys.stdlib_module_names or root in _LIBRARIES or root in _ASYNC_MODULES or root in _BUILTINS
    return FlowValue("library" if is_library else "unknown", path)


def parameters_of(arguments: ast.arguments) -> list[ast.arg]:
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def bindings_of(body: Iterable[ast.AST]) -> set[str]:
    """The names that a block binds in its own scope."""
    names: set[str] = set()
    outer_names: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update((alias.asname or alias.name).partition(".")[0] for alias in aliases)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.Global(names=declared_names) | ast.Nonlocal(names=declared_names):
                outer_names.update(declared_names)
        if not isinstance(node, _NEW_SCOPES):
            waiting += ast.iter_child_nodes(node)
    return names - outer_names


def constant_of(node: ast.expr) -> Any:
    """A key that is written down; `None` for any other."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str | int) else None


def last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
