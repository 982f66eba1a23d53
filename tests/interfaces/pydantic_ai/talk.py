"""A model that says what a test gives it, and readers of what tools gave it back."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


class Talk:
    """A model that says what a test gives it, and what it was asked."""

    def __init__(self, *says: str | ModelResponse) -> None:
        self.says = [ModelResponse(parts=[TextPart(one)]) if isinstance(one, str) else one for one in says]
        self.requests: list[tuple[list[ModelMessage], AgentInfo]] = []

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, model_name="talk")

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append((list(messages), info))
        said = sum(isinstance(message, ModelResponse) for message in messages)
        return self.says[said]

    @property
    def tool_names(self) -> list[str]:
        return [tool.name for tool in self.requests[0][1].function_tools]


def calls(*named: tuple[str, dict[str, Any]]) -> ModelResponse:
    """The model calls tools; ids count from 1."""
    parts = [ToolCallPart(name, args, tool_call_id=f"c{at}") for at, (name, args) in enumerate(named, 1)]
    return ModelResponse(parts=parts)


def program(text: str) -> ModelResponse:
    return calls(("run_code", {"code": text}))


def returns(messages: Sequence[ModelMessage]) -> list[tuple[str, Any]]:
    """What tools gave the model: outcome and content, in order."""
    return [
        (part.outcome, part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


class Shared:
    """An engine that outlives the agent runs that use it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def __aenter__(self) -> "Shared":
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Closed by the fixture."""


Run = Callable[..., Any]
"""The fixture `run`: one program over a toolset."""
