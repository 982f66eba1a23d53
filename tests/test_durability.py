"""Executions that outlive their host, and calls that are not made twice."""

import asyncio
import copy
from typing import Any

import pytest

from toolfold import Call, Limits, Outcome, Paused, Reply, Runtime, ToolSpec, UsageError, tool
from toolfold.errors import ReplayDiverged
from toolfold.ledger.memory import MemoryLedger
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

ASK = ToolSpec(
    name="ask",
    python_name="ask",
    input_schema={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    source="caller",
)

PROGRAM = """
import random, uuid, datetime
ids = [str(uuid.uuid4()), random.random(), str(datetime.datetime.now())]
print(ids)
counts = [await count() for _ in range(3)]
first = await asyncio.gather(*[ask(f"{n}") for n in range(3)])
print(first, counts, await count())
second = await ask(ids[0])
print(second, datetime.datetime.now() > datetime.datetime.fromisoformat(ids[2]))
"""


def counting() -> tuple[Any, list[int]]:
    made: list[int] = []

    @tool
    async def count() -> int:
        """How often this was called."""
        made.append(len(made))
        return len(made)

    return count, made


def answers(step: Paused | Outcome) -> list[Reply]:
    assert isinstance(step, Paused)
    return [Reply(call_id=call.id, value=f"re: {call.arguments['q']}") for call in step.calls]


async def test_a_paused_execution_goes_on_in_another_runtime() -> None:
    ledger = MemoryLedger()
    count, made = counting()
    async with Runtime(tools=[count], ledger=ledger) as first:
        step = await first.start(PROGRAM, tools=[ASK])
        assert isinstance(step, Paused)
        asked = [call.arguments["q"] for call in step.calls]

    async with Runtime(tools=[count], ledger=ledger) as second:
        step = await second.resume(step.execution_id, answers(step))
        assert isinstance(step, Paused)
        ids = step.calls[0].arguments["q"]

    async with Runtime(tools=[count], ledger=ledger) as third:
        end = await third.resume(step.execution_id, answers(step))

    assert isinstance(end, Outcome)
    assert (end.status, asked, len(made)) == ("finished", ["0", "1", "2"], 4)
    lines = end.stdout.splitlines()
    assert lines[1:] == ["['re: 0', 're: 1', 're: 2'] [1, 2, 3] 4", f"re: {ids} True"]
    assert ids in lines[0]
    assert [call.name for call in end.calls] == ["count"] * 3 + ["ask"] * 3 + ["count", "ask"]


async def test_replies_that_were_accepted_are_not_asked_for_again() -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as first:
        step = await first.start("print(await asyncio.gather(ask('a'), ask('b')))", tools=[ASK])
        assert isinstance(step, Paused)
        rest = await first.resume(step.execution_id, answers(step)[:1])
        assert isinstance(rest, Paused)

    async with Runtime(ledger=ledger) as second:
        end = await second.resume(step.execution_id, answers(step))

    assert isinstance(end, Outcome)
    assert end.stdout == "['re: a', 're: b']\n"


async def test_a_program_that_changed_under_its_record_is_an_error() -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as first:
        step = await first.start("import os\nawait ask(str(id(object())))\nawait ask('b')", tools=[ASK])
        assert isinstance(step, Paused)
        step = await first.resume(step.execution_id, answers(step))
    history = await ledger.load(step.execution_id)
    assert history is not None

    async with Runtime(ledger=ledger) as second:
        with pytest.raises(ReplayDiverged, match="call 1 was 'ask'"):
            await second.resume(step.execution_id, answers(step))


async def test_a_program_with_threads_says_that_it_cannot_be_replayed() -> None:
    ledger = MemoryLedger()
    async with Runtime(ledger=ledger) as first:
        step = await first.start("print(await asyncio.to_thread(tools.ask, 'a'))", tools=[ASK])
        assert isinstance(step, Paused)

    async with Runtime(ledger=ledger) as second:
        with pytest.raises(UsageError, match="cannot be replayed: it used threads"):
            await second.resume(step.execution_id, answers(step))


async def test_a_corrected_program_makes_no_call_twice() -> None:
    count, made = counting()

    @tool
    async def save(key: int) -> int:
        """Has an effect."""
        made.append(key)
        return key * 2

    text = "\n".join(["total = 0", *[f"total += await save(key={n})" for n in range(36)], "print({}[total])"])
    async with Runtime(tools=[count, save]) as runtime:
        failed = await runtime.run(text)
        calls_before = len(made)
        fixed = await runtime.run(
            text.replace("{}[total]", "total").replace("key=3)", "key=300)"), rerun_of=failed.execution_id
        )

    assert (failed.status, calls_before) == ("failed", 36)
    assert (fixed.status, fixed.stdout, made[36:]) == ("finished", f"{sum(range(36)) * 2 + 594}\n", [300])
    assert [call.from_record for call in fixed.calls] == [n != 3 for n in range(36)]


async def test_a_rerun_asks_the_policy_of_today() -> None:
    made: list[str] = []
    asked: list[str] = []

    @tool
    async def read(key: str) -> str:
        """Was allowed, and is."""
        made.append(key)
        return f"read {key}"

    @tool
    async def wipe(key: str) -> str:
        """Was allowed, and now needs a yes."""
        made.append(key)
        return f"wiped {key}"

    @tool
    async def leak(key: str) -> str:
        """Was allowed, and now is not."""
        made.append(key)
        return f"leaked {key}"

    async def approve(call: Call, spec: ToolSpec) -> Decision:
        asked.append(call.arguments["key"])
        edited = {"key": "other"} if call.arguments["key"] == "edit" else None
        return Decision(approved=call.arguments["key"] != "no", arguments=edited)

    text = (
        "for call, key in [(read, 'a'), (wipe, 'yes'), (wipe, 'no'), (wipe, 'edit'), (leak, 'b')]:\n"
        "    try:\n        print(await call(key))\n    except ToolError as error:\n        print(error)"
    )
    ledger = MemoryLedger()
    async with Runtime(tools=[read, wipe, leak], ledger=ledger) as before:
        first = await before.run(text)
    made_before, made[:] = list(made), []
    policy = Policy(block=("leak",), ask=("wipe",))
    async with Runtime(tools=[read, wipe, leak], ledger=ledger, policy=policy, approve=approve) as now:
        again = await now.run(text, rerun_of=first.execution_id)

    assert (made_before, made, asked) == (["a", "yes", "no", "edit", "b"], ["other"], ["yes", "no", "edit"])
    assert again.stdout.splitlines() == [
        "read a",
        "wiped yes",
        "'wipe' was denied",
        "wiped other",
        "'leak' is not available in a program",
    ]
    assert [call.from_record for call in again.calls] == [True, True, False, False, False]


async def test_an_unknown_execution_cannot_be_rerun() -> None:
    async with Runtime() as runtime:
        with pytest.raises(UsageError, match="no execution 'nope' in the ledger"):
            await runtime.run("1", rerun_of="nope")


async def test_a_call_that_may_have_run_before_the_host_stopped_is_not_made_again() -> None:
    ledger = MemoryLedger()
    started = asyncio.Event()

    @tool
    async def charge() -> str:
        """Not safe to repeat."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    text = (
        "a = asyncio.create_task(ask('a'))\n"
        "try:\n    print(await charge())\nexcept ToolError as error:\n    print(error)\nprint(await a)"
    )
    async with Runtime(tools=[charge], ledger=ledger) as first:
        task = asyncio.create_task(first.start(text, tools=[ASK]))
        await started.wait()
        execution_id = (await ledger.list())[0].execution_id
        at_the_crash = copy.deepcopy(ledger)
        task.cancel()
        await asyncio.wait([task])

    async with Runtime(tools=[charge], ledger=at_the_crash) as second:
        step = await second.resume(execution_id, [])
        end = await second.resume(execution_id, answers(step))

    assert isinstance(end, Outcome)
    assert end.stdout == ("'charge' was called before the host stopped; whether it ran is not known\nre: a\n")


async def test_fifty_approvals_are_one_pause_and_survive_a_restart() -> None:
    ledger = MemoryLedger()
    deleted: list[int] = []

    @tool(destructive=True)
    async def delete(key: int) -> str:
        """Has an effect that cannot be undone."""
        deleted.append(key)
        return f"deleted {key}"

    text = (
        "async def one(key):\n"
        "    try:\n        return await delete(key)\n    except ToolError as error:\n        return str(error)\n"
        "print(*await asyncio.gather(*[one(key) for key in range(50)]), sep='\\n')"
    )
    policy = Policy(ask=("delete",))
    async with Runtime(tools=[delete], ledger=ledger, policy=policy) as first:
        step = await first.start(text)
        assert isinstance(step, Paused)
        half = await first.resume(step.execution_id, decisions={n: Decision(approved=True) for n in range(1, 11)})
        assert isinstance(half, Paused)

    async with Runtime(tools=[delete], ledger=ledger, policy=policy) as second:
        decisions = {n: Decision(approved=True) for n in range(11, 50)}
        decisions[20] = Decision(approved=False, reason="keep this one")
        decisions[50] = Decision(approved=True, arguments={"key": 500})
        end = await second.resume(step.execution_id, decisions=decisions)

    assert (len(step.approvals), len(half.approvals)) == (50, 40)
    assert isinstance(end, Outcome)
    lines = end.stdout.splitlines()
    assert lines[19] == "'delete' was denied: keep this one"
    assert lines[49] == "deleted 500"
    assert sorted(deleted) == [*(key for key in range(49) if key != 19), 500]


async def test_a_callback_approves_while_the_program_runs() -> None:
    @tool
    async def delete(key: int) -> str:
        """Has an effect."""
        return f"deleted {key}"

    async def approve(call: Call, spec: ToolSpec) -> Decision:
        return Decision(approved=call.arguments["key"] != 1, reason="not that one")

    async with Runtime(tools=[delete], policy=Policy(ask=("delete",)), approve=approve) as runtime:
        outcome = await runtime.run("print(await delete(0))\nawait delete(1)")

    assert (outcome.stdout, outcome.stderr.splitlines()[-1]) == (
        "deleted 0\n",
        "ToolError: 'delete' was denied: not that one",
    )


async def test_a_run_that_nobody_can_approve_is_refused_at_the_call() -> None:
    @tool
    async def delete(key: int) -> None:
        """Has an effect."""

    async with Runtime(tools=[delete], policy=Policy(ask=("delete",))) as runtime:
        outcome = await runtime.run("await delete(0)")

    assert (
        outcome.stderr.splitlines()[-1]
        == "ToolError: 'delete' was denied: it needs approval, and nobody can give it here"
    )


async def test_a_started_rerun_asks_the_outside_only_for_what_is_new() -> None:
    async with Runtime(engine="process", engine_options={"warm": 0}) as runtime:
        first = await runtime.start("a = await ask(q='a')\nprint({}['b'])", tools=[ASK])
        assert isinstance(first, Paused)
        failed = await runtime.resume(first.execution_id, answers(first))
        assert isinstance(failed, Outcome)
        again = await runtime.start(
            "a = await ask(q='a')\nprint(a, await ask(q='b'))", tools=[ASK], rerun_of=failed.execution_id
        )

    assert isinstance(again, Paused)
    assert [call.arguments for call in again.calls] == [{"q": "b"}]


async def test_a_call_that_waits_for_its_turn_is_not_made_after_the_end() -> None:
    begun: list[int] = []
    is_stopped = asyncio.Event()

    @tool
    async def stubborn(key: int) -> int:
        """Will not be cancelled."""
        begun.append(key)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_stopped.set()
        return key

    async with Runtime([stubborn], engine="process", engine_options={"warm": 0}) as runtime:
        for seconds in (1, 10, 60):  # the next where a busy machine had not begun with it before its time was over
            limits = Limits(wall_seconds=seconds, calls_in_flight=1)
            outcome = await runtime.run("await asyncio.gather(*[stubborn(key=n) for n in range(3)])", limits=limits)
            if begun:
                break
        await is_stopped.wait()
        await asyncio.sleep(0)  # for what its end would set off

    assert (outcome.status, begun) == ("timeout", [0])
