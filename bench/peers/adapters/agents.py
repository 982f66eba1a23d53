"""The two code modes of Pydantic AI under one agent, and the agent alone. The model is a function: no network.

Asked for a program, it answers with that program as a call of `run_code`; told how that went, it stops.
"""

from typing import Any, Self

from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.peers.adapters.base import Adapter, Ran
from bench.peers.adapters.in_process import InProcess

Parts = list[Any]


class _Agent(Adapter):
    def agent(self, model: FunctionModel) -> Agent[None, str]:
        raise NotImplementedError

    def ran(self, content: Any) -> Ran:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._agent = self.agent(FunctionModel(_write))
        await self._agent.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._agent.__aexit__(*exc)

    async def run(self, text: str) -> Ran:
        result = await self._agent.run(text)
        parts: Parts = [part for message in result.all_messages() for part in message.parts]
        answer = next(part for part in parts if isinstance(part, RetryPromptPart | ToolReturnPart))
        if isinstance(answer, RetryPromptPart) or answer.outcome != "success":
            raise RuntimeError(str(answer.content))
        return self.ran(answer.content)


def _write(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    if len(messages) > 1:
        return ModelResponse([TextPart("done")])
    program = messages[0].parts[-1].content
    return ModelResponse([ToolCallPart("run_code", {"code": program})])


class HarnessAgent(_Agent):
    def agent(self, model: FunctionModel) -> Agent[None, str]:
        # Here, not at the top: so is toolfold in the next one, and neither should pay for the other.
        from pydantic_ai_harness import CodeMode  # noqa: PLC0415
        from pydantic_monty import MountDir  # noqa: PLC0415

        from bench.peers.adapters.harness import LIMITS  # noqa: PLC0415

        mount = MountDir(virtual_path="/", host_path=".") if self.with_files else None
        mode = CodeMode[None](max_tool_calls=100_000, resource_limits=LIMITS, mount=mount)
        return Agent(model, tools=list(self.tools.values()), capabilities=[mode])

    def ran(self, content: Any) -> Ran:
        from bench.peers.adapters.harness import read  # noqa: PLC0415

        return read(content)


class ToolfoldAgent(_Agent):
    def agent(self, model: FunctionModel) -> Agent[None, str]:
        from toolfold.pydantic_ai import CodeModeToolset  # noqa: PLC0415

        self._ended: list[Ran] = []
        toolset = CodeModeToolset(
            FunctionToolset(list(self.tools.values())),
            engine="process",
            on_outcome=lambda outcome: self._ended.append(Ran(outcome.value, outcome.stdout)),
        )
        return Agent(model, toolsets=[toolset])

    def ran(self, content: Any) -> Ran:
        return self._ended.pop()


class PlainAgent(_Agent):
    """What the agent itself costs: its only tool runs the program in place."""

    def agent(self, model: FunctionModel) -> Agent[None, str]:
        floor = InProcess(tuple(self.tools.values()))
        self._ended: list[Ran] = []

        async def run_code(code: str) -> str:
            self._ended.append(await floor.run(code))
            return "done"

        return Agent(model, tools=[run_code])

    def ran(self, content: Any) -> Ran:
        return self._ended.pop()
