"""What the guest makes of the words that the host sends it, without a jail around it."""

import inspect
import pydoc
from types import SimpleNamespace
from typing import Any

from toolfold.models import ToolSpec
from toolfold.prompts.python_stubs import words_for
from toolfold.protocol.codec import tool_facts
from toolfold_guest.program.namespace import Namespace

SPEC = ToolSpec(
    name="get-users",
    python_name="get_users",
    domain="hr",
    description="People of one department.",
    input_schema={
        "properties": {
            "department": {"type": "string", "description": "As in the org chart."},
            "limit": {"type": "integer", "default": 10},
            "sort-by": {"enum": ["name", "age"]},
            "from": {"type": "string"},
        },
        "required": ["department"],
        "additionalProperties": {"type": "integer"},
    },
    output_schema={"type": "array", "items": {"type": "string"}},
)


def namespace(program: str) -> Namespace:
    async def call(index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        return name, arguments

    channel: Any = SimpleNamespace(call=call, call_blocking=lambda *call: call)
    return Namespace(channel, [tool_facts(SPEC, words_for(program, [SPEC]).get(SPEC.name))])


def test_inspect_and_help_show_the_real_signature() -> None:
    get_users = namespace("help(get_users)").awaitable("get_users")

    signature = inspect.signature(get_users)

    text = "(*, department: str, limit: int = 10, sort_by: Literal['name', 'age'] = Ellipsis, from_: str = Ellipsis, **more: int) -> list[str]"
    assert str(signature) == text
    assert signature.parameters["limit"].default == 10
    shown = [line.rstrip() for line in pydoc.plain(pydoc.render_doc(get_users)).splitlines()]
    words = shown.index("    People of one department.")
    # From Python 3.13 on, a long signature has a line for each parameter.
    assert "".join("".join(shown[2:words]).split()) == f"get_users{text}".replace(" ", "")
    assert shown[words:] == [
        "    People of one department.",
        "",
        "    Parameters:",
        "        department: As in the org chart.",
        "        sort_by: (the tool's 'sort-by')",
        "        from_: (the tool's 'from')",
    ]


def test_without_a_look_at_it_a_function_is_as_plain_as_before() -> None:
    get_users = namespace("await get_users(department='x')").awaitable("get_users")

    assert (hasattr(get_users, "__signature__"), get_users.__doc__) == (False, "People of one department.")


async def test_respelt_keywords_reach_the_tool_under_its_own_names() -> None:
    names = namespace("")
    expected = {"department": "x", "sort-by": "age", "from": "y"}

    assert await names.awaitable("get_users")("x", sort_by="age", from_="y") == ("get-users", expected)
    assert names.blocking("get_users")(department="x", sort_by="age", from_="y") == (0, "get-users", expected, 0)
