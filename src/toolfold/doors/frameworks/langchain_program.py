"""A `StructuredTool` whose failed calls keep their artifact. Imports LangChain, so import it where that is there."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolfold.models import Outcome

_noted: ContextVar[list[Outcome] | None] = ContextVar("toolfold_langchain_outcome", default=None)


class ProgramFailed(ToolException):
    """What the model reads of a program that did not finish, and its outcome if it has one."""

    # Any: content of a LangChain message, text or its standard blocks.
    def __init__(self, content: Any, outcome: Outcome | None = None) -> None:
        super().__init__(content)
        self.outcome = outcome


# Any: the same.
def handle_failure(error: ToolException) -> Any:
    """For `handle_tool_error`: LangChain calls it in the context of `run` or `arun`, and drops the artifact."""
    noted, outcome = _noted.get(), getattr(error, "outcome", None)
    if noted is not None and outcome is not None:
        noted.append(outcome)
    return error.args[0]


class ProgramTool(StructuredTool):
    """Adds to the message of a failed call what its handler noted."""

    # Any: arguments and results are LangChain's.
    def run(self, *args: Any, **options: Any) -> Any:
        """As LangChain's."""
        with _noting() as noted:
            return _with_artifact(super().run(*args, **options), noted)

    # Any: the same.
    async def arun(self, *args: Any, **options: Any) -> Any:
        """As LangChain's."""
        with _noting() as noted:
            return _with_artifact(await super().arun(*args, **options), noted)


@contextmanager
def _noting() -> Iterator[list[Outcome]]:
    noted: list[Outcome] = []
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


# Any: without a tool call's id the result is the bare content.
def _with_artifact(result: Any, noted: list[Outcome]) -> Any:
    if isinstance(result, ToolMessage) and noted:
        result.artifact = noted[-1]
    return result
