"""Blocks and definitions of Anthropic's Messages API, read and written. Pure; plain dicts."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from typing import Any, Final

import jsonschema_rs

from toolfold.doors.frameworks.items import Item, as_item
from toolfold.doors.frameworks.render import Shown
from toolfold.errors import UsageError
from toolfold.models import AllowedCallers, Call, Media, Reply, ToolSpec, Value
from toolfold.tools.arguments import bounded
from toolfold.tools.names import unique_names

DIRECT: Final = "direct"
_HOSTED: Final = "code_execution_"
_FIRST_CALLER: Final = "code_execution_20250825"
_CALLER: Final = "code_execution_20260120"
_NESTED: Final = re.compile(r"toolu_([0-9a-f]{16})_([0-9]{1,9})", re.ASCII)


# --- definitions ----------------------------------------------------------------------------


def read_tools(given: Sequence[Item], *, taken: frozenset[str]) -> dict[str, ToolSpec]:
    """The definitions that the host answers, by name; hosted tools are left out.

    Raises:
        UsageError: a definition is wrong, or its name is taken.
    """
    callers = [callers_of(one) for one in given]
    own = [(one, allowed) for one, allowed in zip(given, callers, strict=True) if not is_hosted(one)]
    names = [one.get("name") for one, _ in own]
    for name in names:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a tool definition needs a name, got {name!r}")
        if names.count(name) > 1 or name in taken:
            raise UsageError(f"two tools are named {name!r}; rename one")
    identifiers = unique_names(str(name) for name in names)
    return {one["name"]: _spec(one, identifiers[one["name"]], allowed) for one, allowed in own}


def definition_of(given: Item) -> Item | None:
    """A definition as the model's request may have it; `None` for one that only programs may call."""
    if _kind(given).startswith(_HOSTED) or callers_of(given) == "code":
        return None
    # What the request does not have, a hosted code execution, must not be named in it.
    return {key: value for key, value in given.items() if key != "allowed_callers"}


def is_hosted(given: Item) -> bool:
    """A tool that Anthropic runs."""
    return _kind(given) not in ("", "custom")


def callers_of(given: Item) -> AllowedCallers:
    """`allowed_callers` in one word.

    Raises:
        UsageError: it names a caller that there is not, or none.
    """
    callers = [DIRECT] if given.get("allowed_callers") is None else list(given["allowed_callers"])
    for one in callers:
        if one != DIRECT and not str(one).startswith(_HOSTED):
            raise UsageError(
                f"tool {given.get('name')!r}: allowed caller {one!r} is not 'direct' or 'code_execution_…'"
            )
    if not callers:
        raise UsageError(f"tool {given.get('name')!r}: allowed_callers is empty; name 'direct' or 'code_execution_…'")
    is_direct, is_code = DIRECT in callers, any(one != DIRECT for one in callers)
    if is_hosted(given) and not is_direct and not _kind(given).startswith(_HOSTED):
        raise UsageError(
            f"tool {given.get('name')!r} runs at Anthropic and no program here can call it; allow 'direct'"
        )
    return "both" if is_direct and is_code else "direct" if is_direct else "code"


def _kind(given: Item) -> str:
    return str(given.get("type") or "")


def _spec(given: Item, identifier: str, callers: AllowedCallers) -> ToolSpec:
    schema = {"type": "object", **(given.get("input_schema") or {})}
    if schema["type"] != "object" or not jsonschema_rs.meta.is_valid(schema):
        raise UsageError(f"the input_schema of tool {given['name']!r} is no JSON Schema of an object")
    return ToolSpec(
        name=given["name"],
        python_name=identifier,
        description=str(given.get("description") or ""),
        input_schema=bounded(schema, given["name"]),
        examples=tuple(given.get("input_examples") or ()),
        allowed_callers=callers,
        source="caller",
    )


# --- blocks ---------------------------------------------------------------------------------


# Any: a model of the SDK, or the same as a dict.
def as_tool_use(given: Any) -> Item:
    """A block that calls a tool.

    Raises:
        UsageError: it is another block.
    """
    item = as_item(given, "a block")
    match item:
        case {"type": "tool_use", "id": str(), "name": str(), "input": dict()}:
            return item
    raise UsageError(f"{item.get('type')!r} is no 'tool_use' block with id, name and input")


def nested_tool_use(execution_id: str, call: Call, definition: Item, program: str) -> Item:
    """A program's call; its id says which call of which execution it is, so that nothing need be remembered."""
    hosted = [one for one in definition.get("allowed_callers") or () if one != DIRECT]
    # The block's own types know no later one.
    kind = _FIRST_CALLER if hosted == [_FIRST_CALLER] else _CALLER
    return {
        "type": "tool_use",
        "id": f"toolu_{execution_id}_{call.id}",
        "name": call.tool,
        "input": dict(call.arguments),
        "caller": {"type": kind, "tool_id": program},
    }


def as_result(tool_use_id: str, shown: Shown) -> Item:
    """What the model reads, as the answer to its block."""
    content: str | list[Item] = shown.text
    if shown.images:
        pictures = [
            {"type": "image", "source": {"type": "base64", "media_type": one.mime, "data": one.base64}}
            for one in shown.images
        ]
        content = [{"type": "text", "text": shown.text}, *pictures]
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": shown.has_failed}


def replies_of(results: Sequence[Item]) -> tuple[str, list[Reply]]:
    """The execution that these blocks belong to, and the replies in them.

    Raises:
        UsageError: they belong to none, or to several.
    """
    found: dict[str, list[Reply]] = {}
    for one in results:
        match = _NESTED.fullmatch(str(one.get("tool_use_id")))
        if match is None or one.get("type") != "tool_result":
            raise UsageError(f"no program waits for {one.get('tool_use_id')!r}; answer with the block's own id")
        found.setdefault(match[1], []).append(reply_of(one, call_id=int(match[2])))
    if len(found) != 1:
        raise UsageError(f"give the results of one program, got those of {len(found)}")
    return next(iter(found.items()))


def reply_of(result: Item, name: str = "", call_id: int = 0) -> Reply:
    """A `tool_result` as a program reads it."""
    content = result.get("content")
    parts = [content] if isinstance(content, str) else [_part(as_item(one, "a block")) for one in content or ()]
    if result.get("is_error"):
        text = "\n".join(one for one in parts if isinstance(one, str)) or "the tool failed"
        return Reply(call_id=call_id, error=f"{name!r} failed: {text}" if name else text)
    values = [_parsed(one) if isinstance(one, str) else one for one in parts]
    return Reply(call_id=call_id, value=values[0] if len(values) == 1 else values or None)


def _part(block: Item) -> Value:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image", "source": {"type": "base64", "media_type": str(mime), "data": str(data)}}:
            try:
                return Media(kind="image", mime=mime, data=base64.b64decode(data, validate=True))
            except binascii.Error as error:
                raise UsageError(f"the data of an image is not base64: {error}") from error
    return block


def _parsed(text: str) -> Value:
    """Text that is JSON as what it says, as for every tool without an output schema."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
