"""Programs that do not come to their end, and every error of the host, as what Pydantic AI is told."""

from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic_ai import Agent, ModelRetry

from tests.interfaces.pydantic_ai.talk import Run, Shared, Talk, program, returns
from toolfold import EngineUnavailable, Limits, ToolfoldError
from toolfold.engines.base import Died
from toolfold.engines.scripted import ScriptedEngine
from toolfold.interfaces.pydantic_ai.outcome_returns import to_exception
from toolfold.ledger.base import ExecutionFilter
from toolfold.ledger.memory import MemoryLedger
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset

pytestmark = pytest.mark.asyncio(loop_scope="module")


def tree(kind: type[ToolfoldError]) -> list[type[ToolfoldError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in tree(child))]


@pytest.mark.parametrize("kind", tree(ToolfoldError), ids=lambda kind: kind.__name__)
async def test_every_error_is_a_retry_or_ends_the_run(kind: type[ToolfoldError]) -> None:
    error = kind("it broke")

    found = {had_paused: to_exception(error, had_paused=had_paused) for had_paused in (False, True)}

    assert all(one is error or isinstance(one, ModelRetry) for one in found.values())
    assert all("it broke" in str(one) for one in found.values())


async def test_a_program_that_takes_too_long_is_stopped_and_the_model_is_told(run: Run) -> None:
    limits = Limits(wall_seconds=0.5)

    assert await run(FunctionToolset(), "while True: pass", options={"limits": limits}) == snapshot(
        (
            "retried",
            """\
the program took longer than 0.5 s
No call of a tool had succeeded.\
""",
        )
    )


async def test_a_guest_that_dies_is_a_retry() -> None:
    engine = ScriptedEngine(Died("the guest was killed"))
    talk = Talk(program("1"), "done")

    result = await Agent(talk.model, toolsets=[CodeModeToolset(FunctionToolset(), engine=engine)]).run("go")

    assert returns(result.all_messages()) == [
        ("retried", "the sandbox broke while the program ran: the guest was killed.")
    ]


async def test_an_engine_that_cannot_be_had_ends_the_run(engine: Shared) -> None:
    class Missing(Shared):
        async def __aenter__(self) -> Any:
            raise EngineUnavailable("no namespaces here")

    talk = Talk(program("1"), "done")

    with pytest.raises(EngineUnavailable, match="no namespaces here"):
        await Agent(talk.model, toolsets=[CodeModeToolset(FunctionToolset(), engine=Missing(engine))]).run("go")


async def test_a_run_is_named_by_the_run_of_its_agent(run: Run) -> None:
    ledger = MemoryLedger()

    await run(
        FunctionToolset(), "1", options={"ledger": ledger}, metadata={"title": "Report", "user": "ann", "tags": ["vip"]}
    )
    (row,) = await ledger.search(ExecutionFilter())

    assert (row.title, row.user, row.tags, row.model, bool(row.conversation)) == (
        "Report",
        "ann",
        ("vip",),
        "talk",
        True,
    )
