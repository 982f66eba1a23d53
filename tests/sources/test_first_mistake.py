"""The check of a function's arguments ends with the first mistake in a collection, and accepts what it always did."""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError, WrapValidator

from tests.sources.test_functions import reply_of, value_of
from toolfold.sources.function_schema import stopping_check

MANY = 8_000


class Looks:
    """Counts the items that pydantic looks at."""

    count = 0


def _look(value: object) -> object:
    Looks.count += 1
    return value


Item = Annotated[int, BeforeValidator(_look)]
Text = Annotated[bool, BeforeValidator(_look)]


class Basket(BaseModel):
    items: list[Item]


@dataclass
class Box:
    items: set[Item]


class Pair(NamedTuple):
    items: tuple[Item, ...]
    name: str = ""


def union(v: list[Item] | list[Text] | None) -> None: ...
def mapping(v: dict[str, Item]) -> None: ...
def nested(v: dict[str, list[Item]]) -> None: ...
def model(v: Basket) -> None: ...
def boxed(v: Box) -> None: ...
def named(v: Pair) -> None: ...
def bounded(v: Annotated[list[Item], Field(max_length=MANY)]) -> None: ...
def baskets(v: list[Basket]) -> None: ...


async def further(**v: list[Item]) -> None: ...


WRONG = [0.5] * MANY


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (union, WRONG),
        (mapping, {str(number): 0.5 for number in range(MANY)}),
        (nested, {"a": WRONG}),
        (model, {"items": WRONG}),
        (boxed, {"items": WRONG}),
        (named, {"items": WRONG}),
        (bounded, WRONG),
        (baskets, [{"items": WRONG}] * 10),
        (further, WRONG),
    ],
)
async def test_of_many_wrong_items_only_the_first_are_looked_at(function: Callable[..., Any], value: Any) -> None:
    Looks.count = 0

    reply = await reply_of(function, v=value)

    assert reply.error is not None
    assert "got 0.5" in reply.error
    assert Looks.count <= 4


async def test_a_few_mistakes_are_all_counted() -> None:
    reply = await reply_of(mapping, v={"a": 0.5, "b": 1, "c": 1.5})

    assert reply.error == "'mapping' got a bad argument: v['a'] must be an integer, got 0.5 (and 1 more)"


class Tagged(BaseModel):
    type: str = "x"
    children: list["Tagged"] = []


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[str] | list[int] | None, [1, 2]),
        (list[int] | list[str] | None, ["1", 2]),
        (dict[int, set[float]], {"1": [1, "2"]}),
        (Tagged, {"type": "a", "children": [{"children": [{}]}]}),
        (dict[str, Any], {"fail_fast": 1, "schema": {"type": "list"}}),
        (Box, {"items": [1, 1, "2"]}),
        (Pair, {"items": [1, 2], "name": "a"}),
        (deque[int], ["1"]),
        (OrderedDict[str, int], {"a": "1"}),
        (Counter[str], {"a": 1}),
        (frozenset[tuple[int, str]], [[1, "a"]]),
    ],
)
def test_what_fits_is_accepted_as_the_same_value(annotation: Any, value: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)

    assert stopping_check(adapter)(value) == adapter.validate_python(value)


async def test_a_default_that_looks_like_a_schema_is_left_alone() -> None:
    def settings(v: list[int], d: dict[str, Any] = Field(default={"type": "list"})) -> dict[str, Any]:  # noqa: B008
        return d

    assert await value_of(settings, v=[1]) == {"type": "list"}


async def test_a_validator_that_drops_what_is_wrong_still_sees_every_mistake() -> None:
    def drop(value: list[Any], check: Callable[[Any], Any]) -> Any:
        try:
            return check(value)
        except ValidationError as error:
            wrong = {one["loc"][0] for one in error.errors()}
            return check([item for place, item in enumerate(value) if place not in wrong])

    def total(v: Annotated[list[int], WrapValidator(drop)]) -> int:
        return sum(v)

    assert await value_of(total, v=["x", 1, "y", 2]) == 3


def plain(v: int, w: Item = 0) -> None: ...


async def test_of_many_unknown_arguments_only_the_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolfold.sources import function_schema

    looked_at: list[int] = []

    def noted(adapter: TypeAdapter[Any]) -> Callable[[Any], Any]:
        def validate(arguments: Any) -> Any:
            looked_at.append(len(arguments))
            return adapter.validator.validate_python(arguments)

        return validate

    monkeypatch.setattr(function_schema, "stopping_check", noted)
    reply = await reply_of(plain, **{f"x{number}": 1 for number in range(MANY)}, v=1)

    assert looked_at == [21]
    assert str(reply.error) == "'plain' got a bad argument: no parameter 'x0'; it takes v, w (and 19 more)"
