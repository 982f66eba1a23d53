"""Tools by name."""

from collections.abc import Mapping
from random import Random
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold.errors import UsageError
from toolfold.models import ToolSpec, Value
from toolfold.tools import Catalog, Tool
from toolfold.tools.tool import python_name, unique_names


async def nothing(arguments: Mapping[str, Value]) -> Value:
    return None


def made(name: str, *, python: str | None = None, aliases: tuple[str, ...] = (), source: str = "function") -> Tool:
    identifier = python_name(name) if python is None else python
    return Tool(spec=ToolSpec(name=name, python_name=identifier, aliases=aliases, source=source), call=nothing)


def test_a_tool_is_found_by_name_by_identifier_and_by_alias() -> None:
    tool = made("mcp__financial-data__query", aliases=("query",))

    catalog = Catalog([tool, made("price")])

    assert catalog.get("mcp__financial-data__query") is tool
    assert catalog.get("query") is None
    assert catalog.by_python_name("mcp__financial_data__query") is tool
    assert catalog.by_python_name("query") is tool
    assert catalog.find("query") is tool
    assert catalog.find("nothing") is None


def test_tools_keep_their_order() -> None:
    catalog = Catalog([made("b"), made("a"), made("a-b"), made("a b")]).with_tools([made("z"), made("a_b")])

    assert [tool.spec.name for tool in catalog] == ["b", "a", "a-b", "a b", "z", "a_b"]
    assert [spec.name for spec in catalog.specs] == ["b", "a", "a-b", "a b", "z", "a_b"]
    assert (len(catalog), "z" in catalog, "y" in catalog) == (6, True, False)


def test_colliding_identifiers_are_settled_in_the_specs() -> None:
    catalog = Catalog([made("a-b"), made("a_b"), made("print")])

    assert [spec.python_name for spec in catalog.specs] == ["a_b_d44362", "a_b", "print_tool"]


def test_an_identifier_that_the_source_chose_is_kept() -> None:
    catalog = Catalog([made("query", python="mcp__db__query"), made("other", python="")])

    assert [spec.python_name for spec in catalog.specs] == ["mcp__db__query", "other"]


def test_an_alias_that_is_not_clear_belongs_to_nobody() -> None:
    catalog = Catalog(
        [made("x", aliases=("query", "y", "mine")), made("y"), made("z", aliases=("query",))],
    )

    assert [spec.aliases for spec in catalog.specs] == [("mine",), (), ()]
    assert catalog.by_python_name("query") is None


def test_an_alias_gives_way_to_a_tool_that_comes_later() -> None:
    first = Catalog([made("x", aliases=("query",))])

    wider = first.with_tools([made("query")])

    assert [spec.aliases for spec in wider.specs] == [(), ()]
    assert [spec.aliases for spec in first.specs] == [("query",)]


def test_two_tools_of_one_name_are_a_usage_error_that_names_both_sources() -> None:
    with pytest.raises(UsageError) as caught:
        Catalog([made("price"), made("price", source="mcp:stocks")])

    assert str(caught.value) == "two tools are named 'price': one from function, one from mcp:stocks"


def test_with_tools_leaves_the_first_catalog_as_it_was() -> None:
    first = Catalog([made("a-b")])

    second = first.with_tools([made("a_b")])

    assert [spec.python_name for spec in first.specs] == ["a_b"]
    assert [spec.python_name for spec in second.specs] == ["a_b_d44362", "a_b"]
    assert first.by_python_name("a_b") is first.get("a-b")
    assert second.by_python_name("a_b") is second.get("a_b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("prise", "price"), ("get_expense", "get_expenses"), ("getexpenses", "get_expenses"), ("zebra", None), ("", None)],
)
def test_the_nearest_name_is_offered_only_if_it_is_near(text: str, expected: str | None) -> None:
    assert Catalog([made("price"), made("get_expenses")]).nearest(text) == expected


@given(st.lists(st.text(alphabet="ab-_. 1", max_size=3), unique=True, max_size=8), st.integers(), st.integers(0, 8))
def test_identifiers_depend_on_the_set_of_tools_only(names: list[str], seed: int, cut: int) -> None:
    shuffled = Random(seed).sample(names, len(names))

    at_once = Catalog(map(made, names))
    in_two = Catalog(map(made, shuffled[:cut])).with_tools(map(made, shuffled[cut:]))

    expected = unique_names(names)
    for catalog in (at_once, in_two):
        assert {spec.name: spec.python_name for spec in catalog.specs} == expected
        assert {name: catalog.by_python_name(expected[name]) for name in names} == {
            name: catalog.get(name) for name in names
        }


def test_ten_thousand_tools_are_no_burden() -> None:
    tools = [made(f"tool-{number}") for number in range(10_000)]

    start = perf_counter()
    catalog = Catalog(tools)
    built = perf_counter()
    catalog.with_tools([made("one-more")])
    widened = perf_counter()

    # Measured: 20 ms and 1.4 ms; the rest is room for a busy machine.
    assert (built - start < 8, widened - built < 2) == (True, True)
