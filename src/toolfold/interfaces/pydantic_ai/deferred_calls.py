"""Calls that wait for a person or another system, between a program and `DeferredToolRequests`.

A program that waits is one deferred call of `run_code`, with the calls it waits for in its metadata.
`unfold` turns that into one request per call, `fold` the answers back; `NestedApprovals` does both
in an agent. The id of a nested call says which program it is of, so nothing but the answers has to
travel from one process to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
    UserPromptNode,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart
from pydantic_graph import End

NOTE: Final = "toolfold"
"""The key in the metadata of a deferred call."""

_NESTED: Final = re.compile(r"(?P<outer>.*)::(?P<execution>[0-9a-f]{16})::(?P<call>\d+)", re.DOTALL)


def nested_id(outer: str, execution_id: str, call_id: int) -> str:
    return f"{outer}::{execution_id}::{call_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedAnswers:
    """Answers to the calls of one program."""

    execution_id: str = ""
    # Any: an approval, or whatever result the outside has for a call.
    results: Mapping[int, Any] = field(default_factory=dict)
    metadata: Mapping[int, Any] = field(default_factory=dict)
    is_yes_to_all: bool = False
    """Somebody approved the program as a whole."""


def unfold(requests: DeferredToolRequests) -> DeferredToolRequests:
    """The same with one request for each call that a program waits for, in place of its `run_code`."""
    approvals: list[ToolCallPart] = []
    calls = list(requests.calls)
    metadata = dict(requests.metadata)
    for request in requests.approvals:
        note = note_in(metadata.get(request.tool_call_id))
        if "calls" not in note:  # not ours, or unfolded already
            approvals.append(request)
            continue
        del metadata[request.tool_call_id]
        for call in note["calls"]:
            key = nested_id(request.tool_call_id, note["execution_id"], call["call_id"])
            part = ToolCallPart(tool_name=call["tool"], args=call["arguments"], tool_call_id=key)
            (calls if call["is_external"] else approvals).append(part)
            metadata[key] = {**(call["metadata"] or {}), NOTE: {"run_code": request.tool_call_id}}
    return DeferredToolRequests(calls=calls, approvals=approvals, metadata=metadata)


def fold(results: DeferredToolResults) -> DeferredToolResults:
    """The answers to nested calls as one for each `run_code`; other answers as they are."""
    folded = DeferredToolResults()
    for kind in ("approvals", "calls", "metadata"):
        for key, result in getattr(results, kind).items():
            nested = _NESTED.fullmatch(key)
            if nested is None:
                getattr(folded, kind)[key] = result
                continue
            answer = _decision(result) if kind == "approvals" else result
            folded.approvals.setdefault(nested["outer"], ToolApproved())
            outer = folded.metadata.setdefault(nested["outer"], {})
            note = outer.setdefault(NOTE, {"execution_id": nested["execution"], "results": {}, "metadata": {}})
            note["metadata" if kind == "metadata" else "results"][int(nested["call"])] = answer
    return folded


# Any: an answer is whatever the outside says.
def _decision(answer: Any) -> Any:
    """A plain yes or no as an object: as the result of a call, `True` would be a value."""
    if isinstance(answer, bool):
        return ToolApproved() if answer else ToolDenied()
    return answer


# Any: metadata is whatever the application put there.
def note_in(metadata: Any) -> Mapping[str, Any]:
    note = metadata.get(NOTE) if isinstance(metadata, Mapping) else None
    return note if isinstance(note, Mapping) else {}


# Any: `RunContext.tool_call_metadata`.
def answers_in(metadata: Any) -> NestedAnswers | None:
    """Answers in the metadata that `fold` wrote."""
    note = note_in(metadata)
    if not note:
        return None
    return NestedAnswers(execution_id=note["execution_id"], results=note["results"], metadata=note["metadata"])


class NestedApprovals(AbstractCapability[Any]):
    """Shows each call that a program waits for as a deferred call of its own, and takes the answers likewise.

    `Agent(..., toolsets=[CodeModeToolset(...)], capabilities=[NestedApprovals()])`
    """

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Not part of a written agent spec: it has no options."""
        return None

    # Any: nodes of any agent.
    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        if isinstance(node, UserPromptNode) and node.deferred_tool_results is not None:
            return replace(node, deferred_tool_results=fold(node.deferred_tool_results))
        return node

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        if isinstance(result, End) and isinstance(result.data.output, DeferredToolRequests):
            return End(replace(result.data, output=unfold(result.data.output)))
        return result
