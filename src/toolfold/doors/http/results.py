"""Tool definitions and results of a client, as the runtime takes them; each mistake gets its own words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import jsonschema_rs
import msgspec

from toolfold.doors.http.answers import call_name
from toolfold.doors.http.refusals import Refusal
from toolfold.doors.http.wire import ApprovalDecision, ToolDefinition, ToolResult
from toolfold.errors import UsageError
from toolfold.execution.history import BY_CALLER
from toolfold.models import Reply, ToolSpec
from toolfold.tools.arguments import bounded
from toolfold.tools.names import unique_names
from toolfold.tools.tool import Decision

_CALL: Final = re.compile(r"call_([0-9]{3,9})", re.ASCII)
_SHOWN_CHARACTERS: Final = 80


def specs_of(definitions: Sequence[ToolDefinition], *, taken: frozenset[str], most: int) -> list[ToolSpec]:
    """Tools that only the client can answer, under the names that its programs call them by."""
    if len(definitions) > most:
        raise Refusal(400, f"{len(definitions)} tools are more than {most}; send those that the program calls")
    seen: set[str] = set()
    for one in definitions:
        if one.name in seen:
            raise Refusal(400, f"tool {one.name[:_SHOWN_CHARACTERS]!r} is given twice; give each tool once")
        if one.name in taken:
            raise Refusal(400, f"tool {one.name[:_SHOWN_CHARACTERS]!r} is one of this server's own; rename yours")
        seen.add(one.name)
    names = unique_names(seen)
    return [_spec(one, names[one.name]) for one in definitions]


def _spec(one: ToolDefinition, python_name: str) -> ToolSpec:
    parameters = one.parameters or {}
    schema = {"type": "object", **parameters}
    if not _is_usable(schema):
        raise Refusal(400, f"the parameters of tool {one.name[:_SHOWN_CHARACTERS]!r} are no JSON Schema of an object")
    description = (one.description or "").strip()
    told = f"Parameters: {json.dumps(parameters, ensure_ascii=False)}" if parameters else ""
    return ToolSpec(
        name=one.name,
        python_name=python_name,
        description="\n\n".join(text for text in (description, told) if text),
        input_schema=bounded(schema, one.name),
        source="caller",
    )


def _is_usable(schema: dict[str, Any]) -> bool:
    if schema["type"] != "object" or not isinstance(schema.get("properties", {}), dict):
        return False
    try:
        return jsonschema_rs.meta.is_valid(schema)
    # A dialect that it does not know, or nested too deep.
    except (ValueError, RecursionError):
        return False


def replies_of(results: Sequence[ToolResult]) -> list[Reply]:
    """Replies to calls, in the order given."""
    if not results:
        raise Refusal(400, "tool_results is empty; answer at least one of the open calls")
    replies: dict[int, Reply] = {}
    for one in results:
        shown = one.call_id[:_SHOWN_CHARACTERS]
        call_id = _call_id(one.call_id)
        if "result" not in one.model_fields_set and not one.is_error:
            raise Refusal(400, f"the result of {shown!r} is missing; send 'result', or 'is_error' with a message")
        if call_id in replies:
            raise Refusal(400, f"{shown!r} is answered twice; answer each call once")
        if one.is_error:
            replies[call_id] = Reply(call_id=call_id, error=one.error_message or "the tool failed")
        else:
            replies[call_id] = Reply(call_id=call_id, value=one.result)
    return list(replies.values())


def decisions_of(given: Sequence[ApprovalDecision], *, by: str) -> dict[int, Decision]:
    """Decisions on calls, on record with whose they are."""
    decisions: dict[int, Decision] = {}
    for one in given:
        call_id = _call_id(one.call_id)
        if call_id in decisions:
            raise Refusal(400, f"{one.call_id!r} is decided twice; decide on each call once")
        try:
            decisions[call_id] = Decision(
                approved=one.approved, reason=one.reason, arguments=one.arguments, covers=one.covers, calls=one.calls,
                by=f"{BY_CALLER}{by}",
            )  # fmt: skip
        except UsageError as error:
            raise Refusal(400, f"the decision on {one.call_id!r} is wrong: {error}") from error
    return decisions


def _call_id(text: str) -> int:
    match = _CALL.fullmatch(text)
    if match is None:
        shown = text[:_SHOWN_CHARACTERS]
        raise Refusal(400, f"call_id {shown!r} is none of ours; send back the id of the tool call")
    return int(match[1])


def check_calls(call_ids: Iterable[int], open_calls: frozenset[int], what: str = "call") -> None:
    """Refuse an answer to a call that is not open."""
    for call_id in call_ids:
        if call_id not in open_calls:
            names = ", ".join(call_name(one) for one in sorted(open_calls)[:20])
            open_ones = f"open are {names}" if names else "none is open"
            raise Refusal(400, f"no open {what} {call_name(call_id)!r}; {open_ones}")


def refuse_large(results: Sequence[ToolResult], limit: int) -> None:
    """Refuse a result that no program could take."""
    for result in results:
        size = len(msgspec.json.encode(result.result))
        if size > limit:
            raise Refusal(400, f"the result of {result.call_id[:40]!r} has {size} bytes, more than {limit}")
