"""Agents that speak A2A as tools: the arguments go out as one message, the task's result comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from toolfold.errors import UsageError, install_extra
from toolfold.models import Json, Value

if TYPE_CHECKING:
    from toolfold.sources.agent_client import Agent

MESSAGE_SCHEMA: Final[Mapping[str, Json]] = {
    "type": "object", "properties": {"message": {"type": "string", "description": "What to tell the agent."}},
    "required": ["message"], "additionalProperties": False,
}  # fmt: skip
"""Default input schema of an agent."""


# Any: an agent may answer with whatever `shape.to_value` takes.
def ask_agent(url: str, *, headers: Mapping[str, str] | None = None) -> Callable[[Mapping[str, Value]], Awaitable[Any]]:
    """Function that calls the agent at `url`; its card is looked up with the first call."""
    agents: list[Agent] = []

    async def ask(payload: Mapping[str, Value]) -> Any:
        if not agents:
            agents.append(_agent(url, headers or {}))
        return await agents[0].ask(payload)

    return ask


def _agent(url: str, headers: Mapping[str, str]) -> Agent:
    try:
        # Here, not at the top: an optional extra, and it takes 0.4 s to import.
        from toolfold.sources.agent_client import Agent  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"agent tools need the package 'a2a-sdk'; {install_extra('a2a')}") from error
    return Agent(url, headers)
