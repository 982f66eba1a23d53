"""The same tools, seen otherwise; and who may call them, as others spell it."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.tools.support import Planned, made, serve
from toolfold.errors import UsageError
from toolfold.models import Call, Reply, ToolSpec
from toolfold.sources.function_tools import as_tool
from toolfold.tools import Catalog, Router
from toolfold.tools.router_steps import wrappers
from toolfold.tools.tool import parse_allowed_callers


async def nothing(arguments: Mapping[str, Any]) -> None:
    return None


def three() -> Catalog:
    return Catalog([
        made(nothing, "get-user", python_name="get_user", aliases=("user",), domain="hr"),
        made(nothing, "get_team", domain="hr", read_only=True),
        made(nothing, "price"),
    ])  # fmt: skip


def names(catalog: Catalog) -> list[tuple[str, str]]:
    return [(spec.name, spec.python_name) for spec in catalog.specs]


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (["get*"], ["get-user", "get_team"]),
        ("price", ["price"]),
        (["user", "price"], ["get-user", "price"]),
        ([], []),
        (lambda spec: spec.read_only, ["get_team"]),
        (lambda spec: spec.domain == "hr", ["get-user", "get_team"]),
    ],
)
def test_a_filter_keeps_what_it_means(keep: Any, kept: list[str]) -> None:
    assert [tool.spec.name for tool in three().filtered(keep)] == kept


def test_a_filter_settles_identifiers_anew() -> None:
    both = Catalog([made(nothing, "a-b", python_name="a_b"), made(nothing, "a_b")])

    assert names(both) == [("a-b", "a_b_d44362"), ("a_b", "a_b")]
    assert names(both.filtered(["a-b"])) == [("a-b", "a_b")]


def test_tools_are_renamed_by_table_and_by_function() -> None:
    by_table = three().renamed({"get-user": "person", "price": "get-user"})
    by_function = three().renamed(str.upper)

    assert names(by_table) == [("person", "person"), ("get_team", "get_team"), ("get-user", "get_user")]
    assert names(by_function) == [("GET-USER", "GET_USER"), ("GET_TEAM", "GET_TEAM"), ("PRICE", "PRICE")]
    assert by_table.by_python_name("user") is None


def test_a_prefix_goes_before_each_name() -> None:
    assert names(three().prefixed("x_")) == [
        ("x_get-user", "x_get_user"),
        ("x_get_team", "x_get_team"),
        ("x_price", "x_price"),
    ]


def test_tools_are_put_into_a_domain() -> None:
    assert [spec.domain for spec in three().in_domain("all").specs] == ["all", "all", "all"]
    assert [spec.domain for spec in three().specs] == ["hr", "hr", ""]


def test_renames_that_cannot_be_are_usage_errors() -> None:
    with pytest.raises(UsageError) as unknown:
        three().renamed({"prize": "cost"})
    with pytest.raises(UsageError) as twice:
        three().renamed({"price": "get_team"})

    assert str(unknown.value) == "no tool 'prize' to rename; did you mean 'price'?"
    assert str(twice.value) == "two tools are named 'get_team': one from function, one from function"


async def test_a_renamed_function_is_called_and_speaks_by_its_new_name() -> None:
    async def double(n: int) -> int:
        return 2 * n

    router = Router(Catalog([as_tool(double)]).prefixed("my_"))

    assert await router.serve(Call(id=1, tool="my_double", arguments={"n": 4})) == Reply(call_id=1, value=8)
    assert (await router.serve(Call(id=1, tool="my_double", arguments={"n": "x"}))).error == (
        "'my_double' got a bad argument: n must be an integer, got 'x'"
    )


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("direct", "direct"),
        ("code", "code"),
        ("both", "both"),
        ("programmatic", "code"),
        ("code_execution", "code"),
        ("code_execution_20250825", "code"),
        (["direct"], "direct"),
        (["code_execution_20250825"], "code"),
        (["code_execution_20250825", "code_execution_20260120"], "code"),
        (["direct", "code_execution_20250825"], "both"),
        (("direct", "programmatic"), "both"),
        (["both"], "both"),
        (None, "both"),
    ],
)
def test_allowed_callers_are_understood_as_others_spell_them(value: object, meaning: str) -> None:
    assert parse_allowed_callers(value) == meaning


def test_without_a_word_the_default_of_the_interface_holds() -> None:
    assert parse_allowed_callers(None, default="direct") == "direct"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("everyone", "allowed_callers has no 'everyone'"),
        ("code_execution_", "allowed_callers has no 'code_execution_'"),
        (["direct", 3], "allowed_callers has no 3"),
        ([], "allowed_callers must be a word or a list of words, got []"),
        ({"direct": True}, "allowed_callers must be a word or a list of words, got {'direct': True}"),
        (7, "allowed_callers must be a word or a list of words, got 7"),
    ],
)
def test_other_words_are_a_usage_error_that_names_the_right_ones(value: object, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_allowed_callers(value)

    assert str(caught.value) == f"{error}; it takes direct, code, both, programmatic or code_execution_20250825"


async def test_steps_with_nothing_to_do_for_a_tool_cost_it_nothing() -> None:
    def layers(**options: Any) -> int:
        count = 0
        rest: Any = nothing
        for step in wrappers(**options):
            wrapped = step(made(nothing), rest)
            count += wrapped is not rest
        return count

    # The check of arguments, the memory of keys, the breaker and the retry: any call may need them.
    assert layers() == 4


async def test_the_check_of_arguments_cannot_be_lost() -> None:
    tool = made(Planned(1), input_schema={"required": ["n"]})

    for router in (Router(Catalog([tool])), Router(Catalog([tool]), wrappers=wrappers())):
        assert (await serve(router)).error == "'x' got a bad argument: n is missing"


def test_a_spec_says_how_long_its_replies_may_be_kept() -> None:
    assert ToolSpec(name="x", python_name="x").cache_seconds == 0
