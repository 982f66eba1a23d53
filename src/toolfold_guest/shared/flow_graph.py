"""Flow graph of a program: cells of abstract values, and what flows from one to another. Knows no syntax."""

import ast
from collections.abc import Callable
from typing import Any, Final, NamedTuple

MOST_STEPS: Final = 200_000


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

    def _cell(self) -> Cell:
        return Cell(self._work)

    def _box(self, node: ast.AST, *, is_nested: bool = False) -> Box:
        box = self._boxes.get(node)
        if box is None:
            box = self._boxes[node] = Box(self._work)
            if is_nested:  # items of items of unknown depth
                box.any_key.add(box)
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
