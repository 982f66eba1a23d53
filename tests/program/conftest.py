"""The tools that the programs in this folder call."""

from typing import Any

import pytest

from toolfold.models import ToolSpec
from toolfold.program import Checker
from toolfold.tools.tool import avoid_reserved_names

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}


def spec(
    name: str, properties: dict[str, Any] | None = None, *required: str, domain: str = "", **more: Any
) -> ToolSpec:
    schema = {"type": "object", "properties": properties or {}, "required": list(required), **more}
    return avoid_reserved_names(ToolSpec(name=name, python_name=name, domain=domain, input_schema=schema))


COLOURS = {"Colour": {"enum": ["red", "green"], "type": "string"}, "Size": {"properties": {"w": INTEGER, "h": INTEGER}}}
TOOLS = (
    spec(
        "price",
        {
            "ticker": STRING,
            "currency": {"enum": ["EUR", "USD", "GBP"]},
            "date": {"anyOf": [STRING, {"type": "null"}], "default": None},
        },
        "ticker",
        domain="market",
    ),
    spec("history", {"ticker": STRING, "days": INTEGER}, "ticker", "days", domain="market"),
    spec(
        "get_users", {"department": STRING, "limit": INTEGER, "active": {"type": ["boolean", "null"]}}, domain="hr",
        additionalProperties=False,
    ),
    spec("get_expenses", {"user_id": STRING, "quarter": INTEGER, "year": INTEGER}, "user_id", domain="hr"),
    spec("get_budget", {"team": STRING}, "team", domain="hr"),
    spec(
        "send_email",
        {"to": {"oneOf": [STRING, {"type": "array", "items": STRING}]}, "subject": STRING, "body": STRING},
        "to", "subject", "body",
    ),
    spec("search", {"query": STRING, "limit": INTEGER, "page": INTEGER, "filters": {"type": "object"}}, "query"),
    spec("save", {"record": {"type": "object"}}, "record"),
    spec("query", {"sql": STRING, "params": {"type": "array"}}, "sql"),
    spec("add", {"a": NUMBER, "b": NUMBER}, "a", "b"),
    spec("set_flag", {"name": STRING, "on": {"type": "boolean"}}, "name", "on"),
    spec("now", additionalProperties=False),
    spec("anything", {"size": INTEGER}, additionalProperties=True),
    spec(
        "orders",
        {
            "status": {"type": "string", "enum": ["open", "closed"]},
            "tags": {"type": "array", "items": STRING},
            "range": {"type": "object", "properties": {"start": STRING, "end": STRING}},
        },
        "status",
    ),
    spec("legacy", {"user-id": STRING, "from": STRING}, "user-id", "from"),
    spec("retire", {"user": STRING, "reason": {"type": "string", "default": "age"}}, "user", "reason"),
    spec("filter", {"rows": {"type": "array"}}, "rows"),
    spec("string", {"length": INTEGER}, "length"),
    spec(
        "paint", {"colour": {"$ref": "#/$defs/Colour"}, "size": {"$ref": "#/$defs/Size"}}, "colour",
        **{"$defs": COLOURS},
    ),
    ToolSpec(name="puzzle", python_name="puzzle", input_schema={"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
    ToolSpec(
        name="financial-data/query",
        python_name="financial_data_query",
        aliases=("mcp__financial_data__query",),
        domain="financial_data",
        input_schema={"type": "object", "properties": {"sql": STRING}, "required": ["sql"]},
    ),
)  # fmt: skip


@pytest.fixture(scope="session")
def tools() -> tuple[ToolSpec, ...]:
    return TOOLS


@pytest.fixture(scope="session")
def checker(tools: tuple[ToolSpec, ...]) -> Checker:
    return Checker(tools)
