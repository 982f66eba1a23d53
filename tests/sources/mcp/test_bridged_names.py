"""What bridged tools are called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold.models import ToolSpec
from toolfold.sources.mcp.bridge import Names, clean, identifier, names_of
from toolfold.tools.catalog import Catalog
from toolfold.tools.tool import Tool


def one(server: str, tool: str) -> Names:
    return names_of([(server, tool)])[server, tool]


def test_hyphens_and_case_are_kept_in_the_name_and_become_underscores_in_python() -> None:
    assert one("financial-data", "Query") == Names(
        name="mcp__financial-data__Query",
        python_name="mcp__financial_data__Query",
        aliases=(),
        domain="financial_data",
        short_name="Query",
    )


@pytest.mark.parametrize(
    ("server", "tool", "names"),
    [
        ("git", "log.show", Names("mcp__git__log_show", "mcp__git__log_show", (), "git", "log_show")),
        ("a b", "c/d", Names("mcp__a_b__c_d", "mcp__a_b__c_d", (), "a_b", "c_d")),
        ("3d", "2x", Names("mcp__3d__2x", "mcp__3d__2x", (), "_3d", "_2x")),
        ("s", "import", Names("mcp__s__import", "mcp__s__import", (), "s", "import_tool")),
        ("s", "größe", Names("mcp__s__gr__e", "mcp__s__gr__e", ("mcp__s__größe",), "s", "größe")),
        ("s", "🙂", Names("mcp__s____", "mcp__s____", (), "s", "__")),
    ],
)
def test_every_sign_has_its_rule(server: str, tool: str, names: Names) -> None:
    assert one(server, tool) == names


def test_the_tool_that_is_spelt_exactly_so_keeps_a_name_that_others_come_to() -> None:
    names = names_of([("s", "a.b"), ("s", "a_b"), ("s", "a/b")])

    assert {tool: (one.name, one.short_name) for (_, tool), one in names.items()} == {
        "a_b": ("mcp__s__a_b", "a_b"),
        "a.b": ("mcp__s__a_b_407e8e", "a_b_407e8e"),
        "a/b": ("mcp__s__a_b_fb3c0e", "a_b_fb3c0e"),
    }


def test_where_two_are_spelt_exactly_so_neither_keeps_it() -> None:
    names = names_of([("a", "b__c"), ("a__b", "c")])

    assert len({one.name for one in names.values()}) == 2
    assert all(one.name.startswith("mcp__a__b__c_") for one in names.values())


def test_a_long_name_is_cut_to_128_and_its_full_spelling_still_works() -> None:
    tool = "t" * 128

    names = one("s", tool)

    assert (len(names.name), names.name[:121]) == (128, f"mcp__s__{tool}"[:121])
    assert names.aliases == (f"mcp__s__{tool}",)


def test_servers_that_come_to_one_module_get_modules_of_their_own() -> None:
    names = names_of([("a-b", "x"), ("a_b", "x")])

    assert {server: one.domain for (server, _), one in names.items()} == {"a_b": "a_b", "a-b": "a_b_d44362"}


@given(st.sets(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=8))
def test_no_two_tools_are_called_alike_and_every_name_is_one(keys: set[tuple[str, str]]) -> None:
    names = names_of(keys)

    tools = [
        Tool(spec=ToolSpec(name=one.name, python_name=one.python_name, aliases=one.aliases), call=print)
        for one in names.values()
    ]
    specs = Catalog(tools).specs
    assert len({spec.python_name for spec in specs}) == len(keys)
    assert all(spec.python_name.isidentifier() and len(spec.name) <= 128 for spec in specs)
    assert all(one.domain.isidentifier() and one.short_name.isidentifier() for one in names.values())
    assert len({(one.domain, one.short_name) for one in names.values()}) == len(keys)


@given(st.text())
def test_a_part_has_no_foreign_sign_and_as_many_signs_as_its_utf_16_form(text: str) -> None:
    assert len(clean(text)) == len(text.encode("utf-16-le", "surrogatepass")) // 2
    assert identifier(text).isidentifier()
