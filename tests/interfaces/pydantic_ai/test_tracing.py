"""Spans: what a program calls is below the call of `run_code`."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.instrumented import InstrumentationSettings

from tests.interfaces.pydantic_ai.talk import Shared, Talk, program
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset, NestedApprovals

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Tracing:
    """Spans of agents that were given its settings, by the name of the tool."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.settings = InstrumentationSettings(tracer_provider=provider)

    def parents(self) -> list[tuple[str, str]]:
        """Each tool's span, with the tool of the span above it."""
        spans = self._exporter.get_finished_spans()
        tools = {span.context.span_id: (span.attributes or {}).get("gen_ai.tool.name") for span in spans}
        above = {span.context.span_id: span.parent.span_id for span in spans if span.parent}
        return sorted(
            (str(name), str(tools.get(above[span_id]))) for span_id, name in tools.items() if name is not None
        )

    def clear(self) -> None:
        self._exporter.clear()


async def test_spans_of_nested_calls_are_children_of_the_span_of_run_code(engine: Shared) -> None:
    tracing = Tracing()
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    async def first() -> int:
        return 1

    @toolset.tool
    def second() -> int:
        return 2

    talk = Talk(program("[await first(), *await asyncio.gather(second(), second())]"), "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(toolset, engine=engine)])
    agent.instrument = tracing.settings

    await agent.run("go")

    assert tracing.parents() == [
        ("first", "run_code"),
        ("run_code", "None"),
        ("second", "run_code"),
        ("second", "run_code"),
    ]


async def test_after_a_pause_spans_belong_to_the_run_that_goes_on(engine: Shared) -> None:
    tracing = Tracing()
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool(requires_approval=True)
    async def pay() -> int:
        return 1

    agent: Agent[None, Any] = Agent(
        Talk(program("await pay()"), "done").model,
        toolsets=[CodeModeToolset(toolset, engine=engine)],
        capabilities=[NestedApprovals()],
        output_type=[str, DeferredToolRequests],
    )
    agent.instrument = tracing.settings
    first = await agent.run("go")
    tracing.clear()

    await agent.run(
        message_history=first.all_messages(), deferred_tool_results=first.output.build_results(approve_all=True)
    )

    assert tracing.parents() == [("pay", "run_code"), ("run_code", "None")]
