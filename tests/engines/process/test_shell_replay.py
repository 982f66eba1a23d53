"""Bash programs that are replayed at each pause: every call keeps its number, whichever job makes it first this time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolfold import Limits, Outcome, Paused, PausedLimits, Reply, Runtime, RuntimeSettings, ToolSpec, tool
from toolfold.errors import ReplayDiverged
from toolfold.ledger.base import CallEntry
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

WEATHER = ToolSpec(
    name="get_weather",
    python_name="get_weather",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
)
A = '{"name":"A"}'
# Each time the dice are thrown anew, as the order of jobs is.
EITHER_FIRST = "(( $(od -An -N1 -tu1 /dev/urandom) % 2 )) && jobs='A B' || jobs='B A'\nfor job in $jobs; do"
MUCH_TO_DO = "for i in {1..9000}; do :; done"


class Till:
    """Tools that note what they did, in runtimes over one ledger."""

    def __init__(self, folder: Path) -> None:
        self._ledger = folder / "runs.sqlite"
        self.done: list[str] = []
        self.noted = asyncio.Event()

    def runtime(self, **options: Any) -> Runtime:
        def pay(name: str) -> str:
            """Needs a yes."""
            self.done.append(name)
            return f"paid {name}"

        def note(name: str) -> str:
            """Needs none."""
            self.done.append(name)
            self.noted.set()
            return f"noted {name}"

        async def meet(name: str) -> str:
            """Waits until something is noted."""
            await self.noted.wait()
            return f"met {name}"

        @tool(read_only=True)
        async def look() -> str:
            """The same, and may be done twice."""
            await self.noted.wait()
            return "looked"

        return Runtime(
            [pay, note, meet, look], engine="process", policy=Policy(ask=["pay"]), **{"ledger": self._ledger, **options}
        )

    async def on_record(self, execution_id: str) -> list[int]:
        """Ids of calls."""
        ledger = SqliteLedger(self._ledger)
        try:
            history = await ledger.load(execution_id)
        finally:
            await ledger.close()
        entries = history.entries if history is not None else ()
        return [entry.call.id for entry in entries if isinstance(entry, CallEntry)]

    async def finish(self, text: str) -> Outcome:
        """Each round is in a runtime of its own."""
        async with self.runtime() as runtime:
            step = await start(runtime, text)
        while isinstance(step, Paused):
            async with self.runtime() as runtime:
                step = await go_on(runtime, step)
        return step


async def start(runtime: Runtime, text: str, **options: Any) -> Paused | Outcome:
    return await runtime.start(text, tools=[WEATHER], language="bash", **options)


async def go_on(runtime: Runtime, step: Paused | Outcome) -> Paused | Outcome:
    """Answer all that is asked: yes to A, no to others."""
    assert isinstance(step, Paused)
    replies = [Reply(call_id=call.id, value=call.arguments["city"]) for call in step.calls]
    decisions = {call.id: Decision(approved=call.arguments["name"] == "A") for call in step.approvals}
    return await runtime.resume(step.execution_id, replies, decisions=decisions)


@pytest.mark.parametrize("place", ["memory", "file"])
async def test_a_yes_is_for_the_call_that_was_shown_in_whatever_order_they_come_again(
    place: str, tmp_path: Path
) -> None:
    till = Till(tmp_path)
    text = f'{EITHER_FIRST} pay "{{\\"name\\":\\"$job\\"}}" & {MUCH_TO_DO}; done; wait'
    at_once = RuntimeSettings(paused_limits=PausedLimits(tenant_bytes=0, total_bytes=0))
    async with till.runtime(**{"ledger": None, "settings": at_once} if place == "memory" else {}) as runtime:
        steps = [await start(runtime, text) for _ in range(8)]
        ends = [await go_on(runtime, step) for step in steps] if place == "memory" else []
    if not ends:
        async with till.runtime() as runtime:
            ends = [await go_on(runtime, step) for step in steps]

    assert till.done == ["A"] * 8
    shown = {(end.stdout, end.stderr) for end in ends if isinstance(end, Outcome)}
    assert shown == {('"paid A"\n', "'pay' was denied\n")}


async def test_a_call_that_was_refused_before_anybody_was_asked_keeps_its_number(tmp_path: Path) -> None:
    text = 'pay "$(printf \'{"nom":"A"}\')"\nget_weather \'{"city":"B"}\'\nget_weather \'{"city":"C"}\''

    outcome = await Till(tmp_path).finish(text)

    assert (outcome.status, outcome.stdout) == ("finished", '"B"\n"C"\n')
    assert [(call.id, call.name) for call in outcome.calls] == [(1, "pay"), (2, "get_weather"), (3, "get_weather")]


async def test_a_difference_is_told_although_later_calls_were_answered(tmp_path: Path) -> None:
    random = "$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"
    text = f"""
{{ {MUCH_TO_DO}; note "{{\\"name\\":\\"{random}\\"}}"; }} &
meet '{{"name":"A"}}'
get_weather '{{"city":"B"}}'
get_weather '{{"city":"C"}}'
"""
    till = Till(tmp_path)
    async with till.runtime() as runtime:
        step = await go_on(runtime, await start(runtime, text))

    async with till.runtime() as runtime:
        with pytest.raises(ReplayDiverged, match=r"^call 2 was 'note' with .*, now it is 'get_weather' with"):
            await go_on(runtime, step)

    assert len(till.done) == 1


@pytest.mark.long
async def test_a_call_that_had_not_asked_yet_when_the_host_was_killed_asks_then(tmp_path: Path) -> None:
    # One call at a time: the others wait for their turn, and one that is yet to ask leaves a gap in the record.
    text = f"look &\n{MUCH_TO_DO}\n{EITHER_FIRST} if [[ $job == A ]]; then pay '{A}'; else note '{A}'; fi & {MUCH_TO_DO}; done; wait"
    killed, till, ids = Till(tmp_path), Till(tmp_path), [f"x{number}" for number in range(8)]
    till.noted.set()
    async with killed.runtime(limits=Limits(calls_in_flight=1)) as runtime:
        starting = [asyncio.create_task(start(runtime, text, durable=True, execution_id=one)) for one in ids]
        while min([len(await till.on_record(one)) for one in ids]) < 2:
            await asyncio.sleep(0.01)
        expected = [2 if await till.on_record(one) == [1, 3] else 3 for one in ids]
        async with till.runtime() as other:
            steps = [await other.resume(one) for one in ids]
            ends = [await go_on(other, step) for step in steps]
    await asyncio.gather(*starting, return_exceptions=True)

    assert [call.id for step in steps if isinstance(step, Paused) for call in step.approvals] == expected
    unknown = "'note' was called before the host stopped; whether it ran is not known\n"
    assert {(end.stdout, end.stderr) for end in ends if isinstance(end, Outcome)} == {
        ('"looked"\n"paid A"\n', unknown),
    }
    assert (till.done, killed.done) == (["A"] * 8, [])


@pytest.mark.long
async def test_a_replay_waits_for_a_job_that_waits_for_the_time(tmp_path: Path) -> None:
    # C comes after B, which the first job waits for; in a replay it waits for nothing, and B comes as late as before.
    text = """
{ meet '{"name":"A"}'; get_weather '{"city":"C"}'; } &
{ python3 -c "import time; time.sleep(5)"; note '{"name":"B"}'; } &
wait
"""
    till = Till(tmp_path)

    outcome = await till.finish(text)

    assert (till.done, outcome.status) == (["B"], "finished")
    assert sorted(outcome.stdout.splitlines()) == ['"C"', '"met A"', '"noted B"']
