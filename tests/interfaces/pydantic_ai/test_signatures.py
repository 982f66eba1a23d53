"""Signatures as text, from functions and from schemas."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from inline_snapshot import snapshot
from pydantic_ai import RunContext

from toolfold.pydantic_ai import Signature, signature_from_function, signature_from_schema


def get_user(user_id: str) -> dict:
    """Fetch user by ID."""
    return {"id": user_id}


def test_a_function_is_written_as_it_is() -> None:
    found = signature_from_function(
        get_user, name="get_user", description="Fetch user by ID.", include_return_type=True
    )

    assert found == Signature(
        name="get_user", signature='def get_user(user_id: str) -> dict:\n    """Fetch user by ID."""'
    )


@dataclass
class Order:
    number: int
    tags: list[str]


async def place(
    ctx: RunContext[int], order: Order, speed: Literal["slow", "fast"] = "slow", *, note: str | None = None
) -> list[Order]:
    """Place an order.

    Args:
        order: What to buy.
        speed: How fast it should come.
    """
    return [order]


def test_types_of_ones_own_are_written_out_and_the_context_is_left_out() -> None:
    assert str(signature_from_function(place)) == snapshot('''\
class Order(TypedDict):
    number: int
    tags: list[str]

async def place(order: Order, speed: Literal['slow', 'fast'] = 'slow', *, note: str | None = None) -> list[Order]:
    """Place an order.

    Parameters:
        order: What to buy.
        speed: How fast it should come.
    """\
''')


def test_the_return_type_can_be_left_out() -> None:
    found = signature_from_function(get_user, include_return_type=False)

    assert found.signature == 'def get_user(user_id: str):\n    """Fetch user by ID."""'


def test_a_schema_is_written_as_an_async_function() -> None:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}

    found = signature_from_schema(name="mcp_tool", parameters_json_schema=schema, description="Search something.")

    assert found == Signature(
        name="mcp_tool", signature='async def mcp_tool(*, query: str = ...) -> Any:\n    """Search something."""'
    )


def test_records_of_a_schema_come_before_the_signature() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"where": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
        "required": ["where"],
    }

    found = signature_from_schema(
        "get-place", schema, return_json_schema={"type": "array", "items": {"type": "string"}}
    )

    assert str(found) == snapshot("""\
class GetPlaceWhere(TypedDict):
    x: int

async def get_place(*, where: GetPlaceWhere) -> list[str]:
    ...\
""")


@pytest.mark.parametrize(("has_return", "head"), [(True, "ping() -> Any:"), (False, "ping():")])
def test_a_schema_without_words_has_a_body(has_return: bool, head: str) -> None:
    found = signature_from_schema("ping", {"type": "object", "properties": {}}, include_return_type=has_return)

    assert found.signature == f"async def {head}\n    ..."
