"""Python functions as tools."""

import asyncio
import contextvars
import functools
import math
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, StringConstraints
from typing_extensions import TypedDict

from toolfold.errors import UsageError
from toolfold.models import Call, Reply, ToolSpec, Value
from toolfold.sources.function_tools import as_tool, tool, tool_from_function
from toolfold.tools import Catalog, Router, Tool


async def reply_of(function: Any, **arguments: Value) -> Reply:
    made = as_tool(function)
    return await Router(Catalog([made])).serve(Call(id=1, tool=made.spec.name, arguments=arguments))


async def value_of(function: Any, **arguments: Value) -> Value:
    reply = await reply_of(function, **arguments)
    assert reply.error is None
    return reply.value


class Colour(Enum):
    RED = "red"


class Row(TypedDict):
    when: date


@dataclass
class Sale:
    amount: Decimal


class Filter(BaseModel):
    since: datetime
    tags: set[str] = set()


def test_a_function_becomes_a_spec() -> None:
    @tool
    async def get_expenses(user_id: str, quarter: int = 1) -> list[dict]:  # type: ignore[type-arg]
        """Expenses of one user."""
        return [{"user": user_id, "amount": 10 * quarter}]

    assert as_tool(get_expenses).spec == ToolSpec(
        name="get_expenses",
        python_name="get_expenses",
        description="Expenses of one user.",
        input_schema={
            "type": "object",
            "properties": {"user_id": {"type": "string"}, "quarter": {"type": "integer", "default": 1}},
            "required": ["user_id"],
            "additionalProperties": False,
        },
        output_schema={"type": "array", "items": {"type": "object", "additionalProperties": True}},
        is_lenient=True,
        source="function",
    )


def test_options_go_into_the_spec() -> None:
    @tool(
        name="get-users",
        description="All users.",
        domain="hr",
        read_only=True,
        idempotent=True,
        destructive=True,
        allowed_callers="code",
        timeout_seconds=2.5,
        examples=[{"page": 1}],
    )
    def users(page: int) -> None:
        """Not this."""

    assert as_tool(users).spec == ToolSpec(
        name="get-users",
        python_name="get_users",
        domain="hr",
        description="All users.",
        input_schema={
            "type": "object",
            "properties": {"page": {"type": "integer"}},
            "required": ["page"],
            "additionalProperties": False,
        },
        output_schema={"type": "null"},
        is_lenient=True,
        examples=({"page": 1},),
        read_only=True,
        idempotent=True,
        destructive=True,
        allowed_callers="code",
        timeout_seconds=2.5,
    )


async def test_a_decorated_function_stays_the_function_it_was() -> None:
    def plain(a: int) -> int:
        return a + 1

    async def awaited(a: int) -> int:
        return a + 1

    assert tool(plain) is plain
    assert tool(domain="x")(awaited) is awaited
    assert (plain(1), await awaited(1)) == (2, 2)


def test_as_tool_takes_tools_marked_and_plain_functions() -> None:
    def plain(a: int) -> int:
        return a

    made = tool_from_function(plain, name="other")

    assert as_tool(made) is made
    assert as_tool(plain).spec.name == "plain"
    assert isinstance(as_tool(tool(plain)), Tool)


GOOGLE = """Find flights.

    Only direct ones.

    Args:
        origin: Where from,
            as a code.
        day (date): Which day.

    Returns:
        The cheapest first.

    Raises:
        ValueError: no such airport.
    """
NUMPY = """Find flights.

    Only direct ones.

    Parameters
    ----------
    origin : str
        Where from,
        as a code.
    day : date
        Which day.

    Returns
    -------
    list
        The cheapest first.
    """
SPHINX = """Find flights.

    Only direct ones.

    :param origin: Where from,
        as a code.
    :param day: Which day.
    :returns: The cheapest first.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_words_come_from_each_kind_of_docstring(docstring: str) -> None:
    def find(origin: str, day: date) -> list[str]:
        return []

    find.__doc__ = docstring
    spec = as_tool(find).spec

    assert spec.description == "Find flights.\n\nOnly direct ones."
    assert spec.input_schema["properties"] == {
        "origin": {"type": "string", "description": "Where from,\nas a code."},
        "day": {"type": "string", "format": "date", "description": "Which day."},
    }
    assert spec.output_schema == {
        "type": "array",
        "items": {"type": "string"},
        "description": "The cheapest first.",
    }


def test_a_description_in_the_annotation_wins() -> None:
    def find(origin: Annotated[str, Field(description="From here.", min_length=3)]) -> Any:
        """Find.

        Args:
            origin: Not this.
        """

    spec = as_tool(find).spec

    assert spec.input_schema["properties"] == {
        "origin": {"type": "string", "minLength": 3, "description": "From here."}
    }
    assert spec.output_schema is None


async def test_arguments_arrive_as_what_the_annotations_say() -> None:
    seen: dict[str, Any] = {}

    def take(
        side: Literal["buy", "sell"],
        colour: Colour,
        day: date,
        price: Decimal,
        row: Row,
        sale: Sale,
        filter: Filter,
        pair: tuple[int, str],
        note: str | None = None,
        untyped=5,
    ) -> None:
        seen.update(locals())

    await value_of(
        take,
        side="buy",
        colour="red",
        day="2026-01-02",
        price="1.10",
        row={"when": "2026-01-03"},
        sale={"amount": 2},
        filter={"since": "2026-01-04T00:00:00", "tags": ["a", "a"]},
        pair=[1, "x"],
    )

    assert {name: value for name, value in seen.items() if name != "seen"} == {
        "side": "buy",
        "colour": Colour.RED,
        "day": date(2026, 1, 2),
        "price": Decimal("1.10"),
        "row": {"when": date(2026, 1, 3)},
        "sale": Sale(Decimal(2)),
        "filter": Filter(since=datetime(2026, 1, 4), tags={"a"}),  # noqa: DTZ001
        "pair": (1, "x"),
        "note": None,
        "untyped": 5,
    }


def test_defaults_are_in_the_schema_where_json_can_show_them() -> None:
    marker = object()

    def take(
        colour: Colour = Colour.RED,
        day: date = date(2026, 1, 2),
        note: str | None = None,
        hidden: Any = marker,
        width: int = Field(default=3, ge=1),
    ) -> None: ...

    schema = as_tool(take).spec.input_schema

    assert {name: one.get("default", "none") for name, one in schema["properties"].items()} == {
        "colour": "red",
        "day": "2026-01-02",
        "note": None,
        "hidden": "none",
        "width": 3,
    }
    assert "required" not in schema


async def test_a_default_given_as_a_field_is_filled_in() -> None:
    # Calling `Field` in a default is the form under test.
    def take(width: int = Field(default=3, ge=1), tags: list[str] = Field(default_factory=list)) -> list[Any]:  # noqa: B008
        return [width, tags]

    assert await value_of(take) == [3, []]
    assert (await reply_of(take, width=0)).error == (
        "'take' got a bad argument: width must be greater than or equal to 1, got 0"
    )


def test_an_output_schema_says_numbers_where_numbers_are_sent() -> None:
    def totals() -> dict[str, timedelta]:
        return {}

    assert as_tool(totals).spec.output_schema == {
        "type": "object",
        "additionalProperties": {"type": "number", "description": "seconds"},
    }


def test_a_return_type_that_no_schema_describes_is_left_out() -> None:
    pd = pytest.importorskip("pandas")

    def frame():
        return pd.DataFrame()

    frame.__annotations__["return"] = pd.DataFrame

    assert as_tool(frame).spec.output_schema is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"ticker": 3}, "ticker must be a string, got 3"),
        ({}, "ticker is missing"),
        ({"ticker": "ABC", "tiker": 1}, "no parameter 'tiker'; did you mean 'ticker'?"),
        ({"ticker": "ABC", "zz": 1},
         "no parameter 'zz'; it takes ticker, days, side, rows, key, on, filter, fast"),
        ({"ticker": "ABC", "days": "x"}, "days must be an integer, got 'x'"),
        ({"ticker": "ABC", "days": 1.5}, "days must be an integer, got 1.5"),
        ({"ticker": "ABC", "side": "hold"}, "side must be 'buy', 'sell' or 'none', got 'hold'"),
        ({"ticker": "ABC", "rows": [{"when": "2026-01-02"}, {}]}, "rows[1]['when'] is missing"),
        ({"ticker": "ABC", "rows": [{"when": "soon"}]}, "rows[0]['when'] must be a date or datetime, got 'soon'"),
        ({"ticker": "ABC", "rows": 4}, "rows must be a list, got 4"),
        ({"ticker": "ABC", "rows": [4]}, "rows[0] must be an object, got 4"),
        ({"ticker": "ABC", "key": []}, "key must be an integer, got [] (and 1 more)"),
        ({"ticker": "ABC", "on": "soon"}, "on must be a datetime or date, got 'soon'"),
        ({"ticker": "ABC", "filter": 3}, "filter must be an object, got 3"),
        ({"ticker": "ABC", "fast": "perhaps"}, "fast must be true or false, got 'perhaps'"),
        ({"ticker": "AB"}, "ticker: string should have at least 3 characters, got 'AB'"),
        ({"ticker": 3, "days": "x"}, "ticker must be a string, got 3 (and 1 more)"),
    ],
)  # fmt: skip
async def test_arguments_that_do_not_fit_are_explained_in_one_line(arguments: dict[str, Any], text: str) -> None:
    def price(
        ticker: Annotated[str, StringConstraints(min_length=3)],
        days: int = 1,
        side: Literal["buy", "sell", "none"] = "none",
        rows: list[Row] = [],  # noqa: B006
        key: int | dict[str, int] = 0,
        on: datetime | None = None,
        filter: Filter | None = None,
        fast: bool = False,
    ) -> None: ...

    assert await reply_of(price, **arguments) == Reply(call_id=1, error=f"'price' got a bad argument: {text}")


async def test_a_sync_function_runs_in_a_thread_with_the_callers_context() -> None:
    user = contextvars.ContextVar("user", default="nobody")

    def whoami() -> list[Any]:
        return [user.get(), threading.current_thread() is threading.main_thread()]

    user.set("ann")

    assert await value_of(whoami) == ["ann", False]


async def test_a_hundred_sync_functions_run_side_by_side() -> None:
    gate = threading.Barrier(100, timeout=100)

    def meet() -> bool:
        gate.wait()
        return True

    router = Router(Catalog([as_tool(meet)]))
    replies = await asyncio.gather(*(router.serve(Call(id=n, tool="meet", arguments={})) for n in range(100)))

    assert [reply.value for reply in replies] == [True] * 100


async def test_an_async_function_runs_in_the_callers_loop() -> None:
    async def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await value_of(where) is True


async def test_a_sync_function_that_returns_an_awaitable_is_awaited() -> None:
    async def inner(n: int) -> int:
        return n + 1

    @functools.wraps(inner)
    def outer(n: int) -> Any:
        return inner(n)

    assert await value_of(outer, n=1) == 2


async def test_a_sync_function_may_run_out_of_an_iterator() -> None:
    def first() -> int:
        return next(iter(()))

    assert await reply_of(first) == Reply(call_id=1, error="'first' failed: StopIteration")


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool(domain="shop")
    def where(self, floor: int) -> str:
        """Where it is."""
        return f"{self.name} {floor}"

    @classmethod
    @tool
    async def kind(cls) -> str:
        return cls.__name__

    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b

    async def __call__(self, x: int) -> str:
        """Call the shop."""
        return f"{self.name} called {x}"


async def test_methods_partials_and_callable_objects_are_tools() -> None:
    shop = Shop("north")

    assert await value_of(shop.where, floor=2) == "north 2"
    assert await value_of(Shop.kind) == "Shop"
    assert await value_of(shop.add, a=1, b=2) == 3
    assert await value_of(shop, x=5) == "north called 5"
    assert await value_of(functools.partial(Shop.add, 5), b=2) == 7
    assert await value_of(functools.partial(Shop.add, b=2), a=1) == 3
    assert (as_tool(shop.where).spec.domain, as_tool(shop.where).spec.parameters) == ("shop", ("floor",))
    assert (as_tool(shop).spec.name, as_tool(shop).spec.description) == ("Shop", "Call the shop.")
    assert as_tool(functools.partial(Shop.add, 5)).spec.name == "add"


async def test_positional_only_and_keyword_only_parameters_work() -> None:
    def mixed(a: int, b: int = 2, /, c: int = 3, *, d: int) -> list[int]:
        return [a, b, c, d]

    async def awaited(a: int, /) -> int:
        return a

    assert await value_of(mixed, a=1, d=4) == [1, 2, 3, 4]
    assert await value_of(mixed, a=1, b=5, c=6, d=4) == [1, 5, 6, 4]
    assert await value_of(awaited, a=1) == 1


async def test_free_keywords_are_taken() -> None:
    def note(title: str, **fields: Any) -> dict[str, Any]:
        return {"title": title, **fields}

    assert as_tool(note).spec.input_schema["additionalProperties"] is True
    assert await value_of(note, title="a", colour="red", size=3) == {"title": "a", "colour": "red", "size": 3}


async def test_parameters_may_have_names_that_models_use() -> None:
    def odd(schema: int, copy: int, _hidden: int, model_config: int, json: int) -> list[int]:
        return [schema, copy, _hidden, model_config, json]

    assert await value_of(odd, schema=1, copy=2, _hidden=3, model_config=4, json=5) == [1, 2, 3, 4, 5]


async def test_annotations_that_are_text_may_name_local_classes() -> None:
    class Local(BaseModel):
        n: int

    def plain(one: "Local", many: "list[Local]", nested: list["Local"]) -> "Local":
        return Local(n=one.n + many[0].n + nested[0].n)

    def maker() -> Callable[..., Any]:
        class Inner(BaseModel):
            n: int

        @tool
        def marked(one: "Inner", other: "Local") -> int:
            return one.n + other.n

        return marked

    assert await value_of(plain, one={"n": 1}, many=[{"n": 2}], nested=[{"n": 3}]) == {"n": 6}
    assert await value_of(maker(), one={"n": 1}, other={"n": 2}) == 3


def test_a_mark_keeps_no_local_alive_but_the_types_it_names() -> None:
    class Big:
        pass

    def maker() -> tuple[Any, weakref.ref[Big]]:
        big = Big()

        @tool
        def marked(one: "int") -> int:
            return one

        return marked, weakref.ref(big)

    marked, big = maker()

    assert as_tool(marked).spec.parameters == ("one",)
    assert big() is None


class Opaque:
    pass


def test_what_cannot_be_a_tool_says_why_in_one_line() -> None:
    def many(*values: int) -> None: ...

    def opaque(a: int, b: Opaque) -> None: ...

    def callback(then: Callable[[int], int]) -> None: ...

    def undefined(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def yields() -> Iterator[int]:
        yield 1

    async def yields_async() -> AsyncIterator[int]:
        yield 1

    texts = []
    for thing in (many, opaque, callback, undefined, yields, yields_async, Shop.where, lambda: 1, 42):
        with pytest.raises(UsageError) as caught:
            as_tool(thing)  # type: ignore[arg-type]
        texts.append(str(caught.value))

    assert texts == [
        "'many' cannot be a tool: it takes *values; give each argument a name",
        "'opaque' cannot be a tool: no schema for its parameter 'b': Opaque is not a type that arguments can have",
        "'callback' cannot be a tool: no schema for its parameter 'then': Callable is not a type that arguments can have",
        "'undefined' cannot be a tool: no schema for its parameter 'a': name 'Missing' is not defined",
        "'yields' cannot be a tool: it yields; return a list instead",
        "'yields_async' cannot be a tool: it yields; return a list instead",
        "'where' cannot be a tool: it takes self; pass the method of an instance",
        "a lambda cannot be a tool without a name; use tool_from_function(..., name='...')",
        "42 cannot be a tool: it is neither a Tool nor callable",
    ]


def test_a_docstring_in_no_known_style_is_all_description() -> None:
    def odd() -> None:
        """Weather: now.

        Note that this: is not a section
        """

    assert as_tool(odd).spec.description == "Weather: now.\n\nNote that this: is not a section"


async def test_a_recursive_type_is_described_and_checked() -> None:
    def depth(tree: "Tree") -> int:
        return 1 + max((depth(child) for child in tree.children), default=0)

    assert await value_of(depth, tree={"children": [{"children": []}]}) == 2
    assert as_tool(depth).spec.input_schema["properties"] == {"tree": {"$ref": "#/$defs/Tree"}}


class Tree(BaseModel):
    children: list["Tree"] = []


async def test_many_mistakes_are_one_line() -> None:
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    first = await reply_of(add, numbers=["x"] * 50_000)
    last = await reply_of(add, numbers=[1] * 300 + ["x"] * 50_000)

    assert first.error == "'add' got a bad argument: numbers[0] must be an integer, got 'x'"
    assert last.error == "'add' got a bad argument: numbers[300] must be an integer, got 'x'"


def test_a_misused_decorator_fails_at_once() -> None:
    with pytest.raises(TypeError) as misspelt:
        tool(readonly=True)  # type: ignore[call-overload]
    with pytest.raises(UsageError) as positional:
        tool("get_users")  # type: ignore[call-overload]
    with pytest.raises(UsageError) as built_in:
        tool(len)

    # From Python 3.13 on, it asks whether another name was meant.
    assert [str(caught.value).partition(". Did")[0] for caught in (misspelt, positional, built_in)] == [
        "tool() got an unexpected keyword argument 'readonly'",
        "'get_users' cannot be marked with @tool: it is not callable",
        "<built-in function len> cannot be marked with @tool; use tool_from_function",
    ]


async def test_classes_and_built_in_functions_are_tools() -> None:
    assert await value_of(Sale, amount="1.5") == {"amount": 1.5}
    assert await value_of(math.sqrt, x=9.0) == 3.0


async def test_future_annotations_of_another_module_are_read() -> None:
    source = (
        "from __future__ import annotations\n"
        "from datetime import date\n"
        "class Row(dict): pass\n"
        "def days(start: date, end: date | None = None, *, tags: list[str] = ()) -> int:\n"
        "    return (end - start).days\n"
    )
    namespace: dict[str, Any] = {"__name__": "elsewhere"}
    exec(source, namespace)

    assert await value_of(namespace["days"], start="2026-01-01", end="2026-01-03") == 2
    assert as_tool(namespace["days"]).spec.output_schema == {"type": "integer"}
