"""Programs over toolsets of Pydantic AI, each in a real agent."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    CombinedToolset,
    ExternalToolset,
    ModelRetry,
    RunContext,
    ToolDefinition,
    ToolFailed,
    UsageLimitExceeded,
    UsageLimits,
    UserError,
    WrapperToolset,
)
from pydantic_ai.capabilities import Hooks
from pydantic_ai.usage import RunUsage

from tests.interfaces.pydantic_ai.talk import Run, Shared, Talk, program, returns
from toolfold import Outcome
from toolfold.prompts.catalog import HEADER
from toolfold.pydantic_ai import CodeModeToolset, FunctionToolset

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def people() -> FunctionToolset[Any]:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    def list_people(team: str) -> list[str]:
        """Ids of the people in one team."""
        return [f"{team}-{number}" for number in range(3)]

    @toolset.tool
    async def get_age(ctx: RunContext[int], person: str) -> int:
        """The age of one person."""
        return ctx.deps + int(person[-1])

    return toolset


async def test_the_model_sees_one_tool_with_typed_signatures(people: FunctionToolset[Any], engine: Shared) -> None:
    talk = Talk("done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(people, engine=engine)])

    await agent.run("go")

    assert talk.tool_names == ["run_code"]
    assert talk.requests[0][1].function_tools[0].description.partition(f"{HEADER}\n")[2] == snapshot("""\
list_people(team: str) -> list[str]
  Ids of the people in one team.
get_age(person: str) -> int
  The age of one person.\
""")


async def test_python_signatures_are_written_where_they_are_asked_for(
    people: FunctionToolset[Any], engine: Shared
) -> None:
    talk = Talk("done")

    await Agent(talk.model, toolsets=[CodeModeToolset(people, engine=engine, signatures="python")]).run("go")

    assert (
        talk.requests[0][1]
        .function_tools[0]
        .description.endswith(
            "```python\n"
            "async def list_people(*, team: str) -> list[str]:\n"
            '    """Ids of the people in one team."""\n\n'
            "async def get_age(*, person: str) -> int:\n"
            '    """The age of one person."""\n'
            "```"
        )
    )


async def test_a_tool_that_changes_from_step_to_step_is_described_as_it_is(engine: Shared) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    async def prepare(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        # In place, as Pydantic AI's own documentation does it.
        definition.parameters_json_schema["properties"]["q"]["description"] = f"of step {ctx.run_step}"
        return definition

    @toolset.tool(prepare=prepare)
    def ask(q: str) -> str:
        return q

    not_in_the_second = toolset.filtered(lambda ctx, _: ctx.run_step != 2)
    talk = Talk(program("1"), program("2"), "done")

    await Agent(talk.model, toolsets=[CodeModeToolset(not_in_the_second, engine=engine)]).run("go")

    shown = [info.function_tools[0].description.partition(f"{HEADER}\n")[2] for _, info in talk.requests]
    of_step = "ask(q: str) -> str\n  q: of step {}"
    assert shown == [of_step.format(1), "", of_step.format(3)]


async def test_the_description_is_made_anew_only_where_the_tools_are_others(
    people: FunctionToolset[Any], engine: Shared
) -> None:
    sometimes = people.filtered(lambda ctx, tool: ctx.run_step < 3 or tool.name == "get_age")
    talk = Talk(program("1"), program("2"), program("3"), "done")

    await Agent(talk.model, toolsets=[CodeModeToolset(sometimes, engine=engine)]).run("go")

    first, second, third, fourth = (info.function_tools[0].description for _, info in talk.requests)
    assert (first is second, third is fourth) == (True, True)
    listed = [["list_people" in text, "get_age" in text] for text in (first, third)]
    assert listed == [[True, True], [False, True]]


async def test_the_sole_result_of_an_mcp_tool_is_typed_as_it_comes(engine: Shared) -> None:
    talk = Talk("done")
    schema = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    definitions = [
        ToolDefinition(name="add-numbers", return_schema=schema, metadata={"meta": None, "annotations": None}),
        ToolDefinition(name="count", return_schema=schema),
    ]

    await Agent(talk.model, toolsets=[CodeModeToolset(ExternalToolset(definitions), engine=engine)]).run("go")

    assert talk.requests[0][1].function_tools[0].description.partition(f"{HEADER}\n")[2] == snapshot("""\
add_numbers() -> int
count() -> {result: int}\
""")


async def test_the_last_expression_is_the_result(people: FunctionToolset[Any], run: Run) -> None:
    text = "ids = await list_people(team='a')\nsum(await asyncio.gather(*[get_age(person=p) for p in ids]))"

    assert await run(people, text, deps=40) == ("success", 123)


async def test_what_is_printed_is_kept_beside_the_result(people: FunctionToolset[Any], run: Run) -> None:
    text = "ids = await list_people('a')\nprint(len(ids), 'people')\nids[0]"

    assert await run(people, text) == ("success", {"printed": "3 people", "result": "a-0"})


async def test_a_program_that_only_prints_gives_the_text(people: FunctionToolset[Any], run: Run) -> None:
    assert await run(people, "print('hello')\nprint('there')") == ("success", "hello\nthere")


async def test_a_program_without_output_says_so(people: FunctionToolset[Any], run: Run) -> None:
    assert await run(people, "x = 1") == (
        "success",
        "(the program ended; it printed nothing and has no value)",
    )


async def test_a_refused_program_is_a_retry_with_the_problem_and_nothing_was_called(
    people: FunctionToolset[Any], run: Run
) -> None:
    assert await run(people, "await list_people(team='a')\nawait get_agee(person='x')") == snapshot(
        (
            "retried",
            """\
line 2: no tool 'get_agee'; did you mean 'get_age'?
await get_agee(person='x')
      ^
The program was not run and no tool was called. Correct it and send it whole.\
""",
        )
    )


async def test_a_failed_program_is_a_retry_with_the_traceback_and_what_had_been_done(
    people: FunctionToolset[Any], run: Run
) -> None:
    assert await run(people, "ids = await list_people(team='a')\nprint(ids[0])\nids[7]") == snapshot(
        (
            "retried",
            """\
Traceback (most recent call last):
  File "<program>", line 3, in __main__
    ids[7]
IndexError: list index out of range
It had printed:
a-0
list_people returned list[str] (3 items)
These calls had succeeded and were not undone: list_people.\
""",
        )
    )


async def test_the_model_corrects_a_program_and_is_told_of_each_attempt(
    people: FunctionToolset[Any], engine: Shared
) -> None:
    talk = Talk(program("nobody()"), program("await list_people(team='b')"), "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(people, engine=engine)])

    result = await agent.run("go")

    assert [outcome for outcome, _ in returns(result.all_messages())] == ["retried", "success"]
    assert returns(result.all_messages())[1] == ("success", ["b-0", "b-1", "b-2"])


@pytest.mark.parametrize(("reuse", "paid"), [(True, [1, 2]), (False, [1, 1, 2])])
async def test_a_corrected_program_need_not_do_again_what_the_failed_one_did(
    reuse: bool, paid: list[int], engine: Shared
) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()
    done: list[int] = []

    @toolset.tool
    async def pay(amount: int) -> str:
        done.append(amount)
        return f"paid {amount}"

    talk = Talk(
        program("first = await pay(amount=1)\nint(first)"),
        program("[await pay(amount=1), await pay(amount=2)]"),
        "done",
    )
    agent = Agent(talk.model, toolsets=[CodeModeToolset(toolset, engine=engine, reuse_replies=reuse)])

    result = await agent.run("go")

    assert returns(result.all_messages())[1] == ("success", ["paid 1", "paid 2"])
    assert done == paid


async def test_every_call_is_validated_as_a_direct_call_is(run: Run) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    def age_on(day: date, born: int) -> int:
        return day.year - born

    text = """
days = {"day": "2026-01-01", "born": "1990"}
good = await age_on(**days)
try:
    await age_on(day="never", born=good)
except ToolError as error:
    print(error)
good
"""
    assert await run(toolset, text) == snapshot(
        (
            "success",
            {
                "printed": "bad arguments for 'age_on': day: Input should be a valid date or datetime, input is too short",
                "result": 36,
            },
        )
    )


async def test_a_tool_that_asks_for_a_retry_or_fails_raises_at_the_call(run: Run) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    def picky(word: str) -> str:
        if word == "retry":
            raise ModelRetry("say please")
        if word == "fail":
            raise ToolFailed("it is gone")
        raise ValueError("a bug")

    text = """
for word in ("retry", "fail", "bug"):
    try:
        await picky(word=word)
    except ToolError as error:
        print(error)
"""
    assert await run(toolset, text) == snapshot(
        (
            "success",
            """\
'picky' failed: say please
'picky' failed: it is gone
'picky' failed: a bug\
""",
        )
    )


async def test_values_arrive_as_their_schema_describes_them(run: Run) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    class Price(BaseModel):
        amount: Decimal
        on: date

    @dataclass
    class Pair:
        left: int
        right: bytes

    @toolset.tool
    def price() -> list[Price]:
        return [Price(amount=Decimal("1.50"), on=date(2026, 1, 2))]

    @toolset.tool
    def pair() -> dict[str, Any]:
        return {"raw": b"\xff", "pair": Pair(1, b"ab")}

    text = "p = await pair()\n[await price(), type(p['raw']).__name__, p['pair']['left']]"

    assert await run(toolset, text) == ("success", [[{"amount": "1.50", "on": "2026-01-02"}], "bytes", 1])


async def test_wrappers_around_a_toolset_apply_to_calls_of_programs(people: FunctionToolset[Any], run: Run) -> None:
    seen: list[str] = []

    class Watched(WrapperToolset[Any]):
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            seen.append(f"{name} {ctx.tool_call_id}")
            return await super().call_tool(name, tool_args, ctx, tool)

    other: FunctionToolset[Any] = FunctionToolset()

    @other.tool
    def secret() -> int:
        return 1

    both = CombinedToolset([people.prefixed("hr"), other]).filtered(lambda _, tool: tool.name != "secret")

    found = await run(Watched(both), "await hr_list_people(team='a')")

    assert found == ("success", ["a-0", "a-1", "a-2"])
    assert [one.partition("::")[0] for one in seen] == ["hr_list_people c1"]
    assert (await run(Watched(both), "await secret()"))[0] == "retried"


async def test_hooks_see_the_calls_of_programs(people: FunctionToolset[Any], run: Run) -> None:
    hooks: Hooks[Any] = Hooks()
    seen: list[tuple[str, dict[str, Any]]] = []

    @hooks.on.before_tool_execute
    async def note(ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
        seen.append((tool_def.name, {} if tool_def.name == "run_code" else args))
        return args

    await run(people, "await list_people(team='a')", capabilities=[hooks])

    assert seen == [("run_code", {}), ("list_people", {"team": "a"})]


async def test_calls_of_programs_count_towards_the_usage_limits(people: FunctionToolset[Any], run: Run) -> None:
    text = "await asyncio.gather(*[list_people(team=t) for t in 'abc'], return_exceptions=True)"

    with pytest.raises(UsageLimitExceeded) as caught:
        await run(people, text, usage_limits=UsageLimits(tool_calls_limit=3))

    assert "tool_calls_limit of 3" in str(caught.value)


async def test_usage_has_the_calls_of_programs(people: FunctionToolset[Any], engine: Shared) -> None:
    talk = Talk(program("[await list_people(team=t) for t in 'ab']"), "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(people, engine=engine)])
    usage = RunUsage()

    await agent.run("go", usage=usage)

    assert usage.tool_calls == 3


async def test_an_error_of_the_host_ends_the_run_whatever_the_program_does(run: Run) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    def broken() -> None:
        raise UserError("the toolset is set up wrongly")

    with pytest.raises(UserError, match="set up wrongly"):
        await run(toolset, "try:\n    await broken()\nexcept Exception:\n    pass\nwhile True: pass")


async def test_a_sequential_tool_runs_alone(run: Run) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()
    running: list[str] = []
    met: list[tuple[str, ...]] = []

    def working(name: str, sequential: bool) -> Callable[..., Any]:
        @toolset.tool(name=name, sequential=sequential)
        async def work() -> None:
            running.append(name)
            met.append(tuple(running))
            for _ in range(5):
                await asyncio.sleep(0)
            running.remove(name)

        return work

    working("alone", True)
    working("social", False)

    await run(toolset, "await asyncio.gather(social(), alone(), social(), social())")

    assert min(met, key=len) == ("social",)
    assert [one for one in met if "alone" in one] == [("alone",)]


async def test_the_outcome_of_each_program_is_told_with_its_hints(people: FunctionToolset[Any], run: Run) -> None:
    outcomes: list[Outcome] = []

    await run(people, "await list_people(team='a')", options={"on_outcome": outcomes.append})
    await run(people, "[await list_people(team=t) for t in 'ab']", options={"on_outcome": outcomes.append})

    assert [outcome.hints for outcome in outcomes] == [
        ("one call only: a direct call of 'list_people' would do",),
        (),
    ]


async def test_an_application_finds_the_account_of_a_program_in_the_metadata(
    people: FunctionToolset[Any], engine: Shared
) -> None:
    talk = Talk(program("await list_people(team='a')"), "done")
    agent = Agent(talk.model, toolsets=[CodeModeToolset(people, engine=engine)])

    result = await agent.run("go")

    account = result.all_messages()[2].parts[0].metadata["toolfold"]
    assert {key: account[key] for key in ("engine", "isolation", "calls", "files", "hints")} == {
        "engine": engine.name,
        "isolation": engine.isolation,
        "calls": [{"tool": "list_people", "error": None}],
        "files": [],
        "hints": ["one call only: a direct call of 'list_people' would do"],
    }


async def test_two_programs_at_once_keep_their_own_calls(people: FunctionToolset[Any], engine: Shared) -> None:
    agents = [
        Agent(
            Talk(program("await get_age(person='x-1')"), "done").model,
            toolsets=[CodeModeToolset(people, engine=engine)],
            deps_type=int,
        )
        for _ in range(4)
    ]

    results = await asyncio.gather(*[agent.run("go", deps=10 * at) for at, agent in enumerate(agents)])

    assert [returns(one.all_messages()) for one in results] == [[("success", 10 * at + 1)] for at in range(4)]


async def test_a_tool_named_like_code_mode_is_refused(run: Run) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()

    @toolset.tool
    def run_code() -> None: ...

    with pytest.raises(UserError, match="a tool is named 'run_code'"):
        await run(toolset, "1")


async def test_a_wrong_engine_is_refused_at_once() -> None:
    with pytest.raises(Exception, match="no engine 'docker'"):
        CodeModeToolset(FunctionToolset(), engine="docker")
