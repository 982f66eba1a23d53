"""Tool names as identifiers."""

import keyword
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold.tools.tool import python_name, unique_names
from toolfold_guest.shared.reserved_names import RESERVED

# From the real function of LibreChat's client. For a name without any usable sign it gives an
# empty text; there we give `tool_` and a hash.
VECTORS = {
    "get_weather": "get_weather",
    "get-weather": "get_weather",
    "my tool": "my_tool",
    "for": "for_tool",
    "class": "class_tool",
    "match": "match",
    "123data": "_123data",
    "a.b": "ab",
    "a/b": "ab",
    "météo": "mto",
    "search_mcp_GitHub": "search_mcp_GitHub",
    "x\ty": "x_y",
    "a--b": "a__b",
    "time": "time",
    "select": "select",
    "echo": "echo",
    "_": "_",
    "": "tool_e3b0c4",
    "日本": "tool_cf2abf",
    "None": "None_tool",
    "print": "print",
    "a:b@c": "abc",
}

# Few letters, so that names collide often.
names = st.text(alphabet="ab-_. 1é", max_size=4) | st.sampled_from(["print", "print_tool", "for", "for_tool", "日本"])


@pytest.mark.parametrize(("name", "expected"), VECTORS.items())
def test_a_name_becomes_the_identifier_that_librechat_clients_use(name: str, expected: str) -> None:
    assert python_name(name) == expected


@given(st.text())
def test_every_name_becomes_an_identifier_that_is_no_keyword(name: str) -> None:
    identifier = python_name(name)

    assert (identifier.isidentifier(), keyword.iskeyword(identifier)) == (True, False)


def test_the_exact_spelling_keeps_the_identifier_and_the_others_get_a_suffix() -> None:
    assert unique_names(["a-b", "a_b", "a b", "c"]) == {
        "a_b": "a_b",
        "a-b": "a_b_d44362",
        "a b": "a_b_c8687a",
        "c": "c",
    }


def test_no_inexact_spelling_keeps_the_identifier_so_that_it_never_changes_hands() -> None:
    assert unique_names(["a-b", "a b"]) == {"a-b": "a_b_d44362", "a b": "a_b_c8687a"}


def test_a_suffix_that_is_another_tools_name_gets_longer() -> None:
    assert unique_names(["a-b", "a_b", "a_b_d44362"])["a-b"] == "a_b_d44362d6"


def test_a_tool_leaves_the_names_that_programs_need_alone() -> None:
    assert unique_names(["print", "tools", "asyncio", "len"]) == {
        "print": "print_tool",
        "tools": "tools_tool",
        "asyncio": "asyncio_tool",
        "len": "len_tool",
    }


@given(st.lists(names, unique=True), st.integers())
def test_identifiers_are_unique_and_independent_of_order(listed: list[str], seed: int) -> None:
    shuffled = Random(seed).sample(listed, len(listed))

    chosen = unique_names(listed)

    assert chosen == unique_names(shuffled)
    assert chosen.keys() == set(listed)
    assert len(set(chosen.values())) == len(listed)
    assert not RESERVED & set(chosen.values())
