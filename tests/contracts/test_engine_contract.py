"""What every engine promises, said through `Engine.open` alone. A new engine is done when it passes.

`ENGINES=mine pytest tests/contracts/test_engine_contract.py` runs it on an engine that is installed here.
"""

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.installed import toy_engine
from toolfold.engines.base import Called, Died, Ended, Engine, Event, Order, Printed, ReplayTape, Run, Timed, Waiting
from toolfold.engines.registry import engine_named
from toolfold.engines.scripted import ScriptedEngine
from toolfold.errors import EngineUnavailable
from toolfold.models import MIB, Call, File, Limits, Media, Problem, Program, Reply, ToolSpec

ENGINES = os.environ.get("ENGINES", "process,monty,toy").split(",")
LEDGER_BYTES = 8 * MIB
PICTURE = Media(kind="image", mime="image/png", data=b"\x89PNG\x00", name="dot.png")
TOOLS = (
    ToolSpec(
        name="echo",
        python_name="echo",
        input_schema={"type": "object", "properties": {"value": {}}, "required": ["value"]},
    ),
    ToolSpec(
        name="get-it", python_name="get_it", domain="box", input_schema={"type": "object", "properties": {"n": {}}}
    ),
)

Serve = Callable[[Call], Reply | None]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    with toy_engine(tmp_path_factory.mktemp("site")) if request.param == "toy" else nullcontext():
        made = engine_named(request.param)
        try:
            await made.__aenter__()
        except EngineUnavailable as reason:
            pytest.skip(f"not proved here: the contract of the {request.param} engine ({reason})")
        try:
            yield made
        finally:
            await made.__aexit__(None, None, None)


def order(text: str, **options: Any) -> Order:
    return Order(program=Program(text=text, preset_names=("asyncio",)), tools=TOOLS, **options)


def echo(call: Call) -> Reply:
    return Reply(call_id=call.id, value=call.arguments.get("value"))


async def played(engine: Engine, text: str, serve: Serve = echo, **options: Any) -> list[Event]:
    """Every event of one program whose calls are answered at once."""
    events: list[Event] = []
    async with engine.open(order(text, **options)) as run:
        async for event in run:
            events.append(event)
            if isinstance(event, Called):
                for call in event.calls:
                    reply = serve(call)
                    if reply is not None:
                        run.answer(reply)
    return events


async def ended(engine: Engine, text: str, serve: Serve = echo, **options: Any) -> Ended:
    last = (await played(engine, text, serve, **options))[-1]
    assert isinstance(last, Ended), last
    return last


def calls_in(events: list[Event]) -> list[Call]:
    return [call for event in events if isinstance(event, Called) for call in event.calls]


def kinds(events: list[Event]) -> list[type]:
    """Of the events, as if each call had its own: how many calls an engine puts into one is its own affair."""
    return [type(event) for event in events for _ in (event.calls if isinstance(event, Called) else [event])]


def printed(events: list[Event], stream: str = "stdout") -> str:
    return "".join(event.text for event in events if isinstance(event, Printed) and event.stream == stream)


async def works(engine: Engine) -> bool:
    """The engine runs a program as if nothing had happened."""
    last = await ended(engine, "await echo(value=[1, 2])")
    return last == Ended(status="finished", value=[1, 2])


@dataclass
class Watched:
    """A run whose events are read in the background, so that a test can act in the middle."""

    run: Run
    events: list[Event] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        async for event in self.run:
            self.events.append(event)
            self.changed.set()
        self.changed.set()

    async def until(self, is_there: Callable[[list[Event]], bool]) -> list[Event]:
        async with asyncio.timeout(60):
            while not is_there(self.events):
                self.changed.clear()
                await self.changed.wait()
        return list(self.events)

    async def calls(self, count: int) -> list[Call]:
        return calls_in(await self.until(lambda events: len(calls_in(events)) >= count))

    async def end(self) -> Event:
        return (await self.until(lambda events: bool(events) and isinstance(events[-1], Ended | Died)))[-1]


@asynccontextmanager
async def watched(engine: Engine, text: str, **options: Any) -> AsyncIterator[Watched]:
    async with engine.open(order(text, **options)) as run:
        watch = Watched(run)
        reading = asyncio.create_task(watch.read())
        yield watch
    reading.cancel()


# events


async def test_events_come_in_the_order_in_which_the_program_made_them(engine: Engine) -> None:
    lines = (0, 0) if engine.name == "monty" else (2, 4)
    events = await played(engine, "print(1)\nawait echo(value=2)\nprint(3)\nawait get_it(n=4)\nprint(5)\n6")

    assert events == [
        Printed("1\n"),
        Called(Call(id=1, tool="echo", arguments={"value": 2}, line=lines[0])),
        Printed("3\n"),
        Called(Call(id=2, tool="get-it", arguments={"n": 4}, line=lines[1])),
        Printed("5\n"),
        Ended(status="finished", value=6),
    ]


async def test_an_empty_program_ends_with_nothing_but_an_end(engine: Engine) -> None:
    assert await played(engine, "") == [Ended(status="finished")]


@pytest.mark.parametrize(
    "text", ["1", "1 / 0", "import asyncio\nasyncio.run(echo(value=1))", "return 3", "raise SystemExit", "x = ("]
)
async def test_there_is_exactly_one_last_event(engine: Engine, text: str) -> None:
    events = await played(engine, text)

    assert [isinstance(event, Ended | Died) for event in events].count(True) == 1
    assert isinstance(events[-1], Ended)


async def test_a_failure_prints_its_traceback_and_names_the_line(engine: Engine) -> None:
    events = await played(engine, "def f():\n    return {}['x']\n\nf()")

    assert printed(events, "stderr") == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 4, in __main__\n'
        "    f()\n"
        '  File "<program>", line 2, in f\n'
        "    return {}['x']\n"
        "KeyError: 'x'\n"
    )
    problem = Problem(kind="exception", message="KeyError: 'x'", line=2, source="return {}['x']")
    assert events[-1] == Ended(status="failed", problem=problem)


async def test_output_arrives_while_the_program_runs(engine: Engine) -> None:
    async with watched(engine, "print('early')\nawait echo(value=1)\nprint('late')") as watch:
        calls = await watch.calls(1)
        before = printed(watch.events)
        watch.run.answer(Reply(call_id=calls[0].id))
        await watch.end()

    assert before == "early\n"
    assert printed(watch.events) == "early\nlate\n"


async def test_both_streams_are_told_apart(engine: Engine) -> None:
    events = await played(engine, "import sys\nprint('out')\nprint('err', file=sys.stderr)")

    assert (printed(events, "stdout"), printed(events, "stderr")) == ("out\n", "err\n")


# calls and answers


async def test_answers_may_come_in_any_order(engine: Engine) -> None:
    text = "await asyncio.gather(echo(value='a'), echo(value='b'), echo(value='c'))"
    async with watched(engine, text) as watch:
        for call in reversed(await watch.calls(3)):
            watch.run.answer(Reply(call_id=call.id, value=call.arguments["value"] * 2))
        last = await watch.end()

    assert last == Ended(status="finished", value=["aa", "bb", "cc"])


async def test_a_hundred_gathered_calls_arrive_before_any_is_answered(engine: Engine) -> None:
    text = "sum(await asyncio.gather(*[echo(value=n) for n in range(100)]))"
    async with watched(engine, text) as watch:
        calls = await watch.calls(100)
        assert [call.id for call in calls] == list(range(1, 101))
        for call in calls:
            watch.run.answer(echo(call))
        last = await watch.end()

    assert last == Ended(status="finished", value=4950)


async def test_a_failed_call_raises_where_it_stands(engine: Engine) -> None:
    text = "try:\n    await echo(value=1)\nexcept ToolError as error:\n    print('caught', error)"
    events = await played(engine, text, lambda call: Reply(call_id=call.id, error="'echo' failed: no"))

    assert printed(events) == "caught 'echo' failed: no\n"


async def test_an_uncaught_failed_call_ends_the_program(engine: Engine) -> None:
    last = await ended(engine, "\nawait echo(value=1)", lambda call: Reply(call_id=call.id, error="'echo' failed: no"))

    problem = Problem(kind="exception", message="ToolError: 'echo' failed: no", line=2, source="await echo(value=1)")
    assert last == Ended(status="failed", problem=problem)


async def test_an_answer_to_no_call_is_ignored(engine: Engine) -> None:
    async with watched(engine, "await echo(value=1)") as watch:
        (call,) = await watch.calls(1)
        watch.run.answer(Reply(call_id=99, value="stray"))
        watch.run.answer(Reply(call_id=call.id, value="meant"))
        last = await watch.end()

    assert last == Ended(status="finished", value="meant")


async def test_an_answer_after_the_end_is_ignored(engine: Engine) -> None:
    async with watched(engine, "1") as watch:
        last = await watch.end()
        watch.run.answer(Reply(call_id=1, value=2))
        watch.run.stop("cancelled")
        await asyncio.sleep(0)
        events = list(watch.events)

    assert events == [last]


async def test_a_synchronous_call_returns_its_value(engine: Engine) -> None:
    assert await ended(
        engine, "tools.echo(value=1) + tools.box.get_it(2)", lambda call: Reply(call_id=call.id, value=5)
    ) == (Ended(status="finished", value=10))


# waiting


async def test_waiting_tells_how_many_replies_were_seen(engine: Engine) -> None:
    text = "a = await echo(value=1)\nawait asyncio.gather(echo(value=2), echo(value=3))"
    async with watched(engine, text, report_waiting=True) as watch:
        first = await watch.until(lambda events: Waiting(0) in events)
        assert kinds(first) == [Called, Waiting]
        watch.run.answer(Reply(call_id=1))
        second = await watch.until(lambda events: Waiting(1) in events)
        assert kinds(second) == [Called, Waiting, Called, Called, Waiting]
        watch.run.answer(Reply(call_id=3))
        await watch.until(lambda events: Waiting(2) in events)
        watch.run.answer(Reply(call_id=2))
        last = await watch.end()

    assert isinstance(last, Ended)
    assert last.status == "finished"


async def test_waiting_is_not_told_unless_asked_for(engine: Engine) -> None:
    events = await played(engine, "await echo(value=1)\nawait echo(value=2)")

    assert kinds(events) == [Called, Called, Ended]


async def test_a_timer_does_not_delay_waiting(engine: Engine) -> None:
    text = "await asyncio.gather(echo(value=1), asyncio.sleep(60))"
    async with watched(engine, text, report_waiting=True) as watch:
        events = await watch.until(lambda events: Waiting(0) in events)

    assert kinds(events) == [Called, Waiting]


async def test_a_synchronous_call_waits_too(engine: Engine) -> None:
    async with watched(engine, "tools.echo(value=1)", report_waiting=True) as watch:
        events = await watch.until(lambda events: Waiting(0) in events)

    assert kinds(events) == [Called, Waiting]


TIMER_AND_REPLY = """
async def late():
    await asyncio.sleep({seconds})
    print('timer')
async def ask():
    await echo(value=1)
    print('reply')
await asyncio.gather(late(), ask())
"""


async def test_timers_that_the_pause_counts_for_run_out_before_its_replies(engine: Engine) -> None:
    text = TIMER_AND_REPLY.format(seconds=1000)
    async with watched(engine, text, report_waiting=True, tape=ReplayTape()) as watch:
        await watch.until(lambda events: Waiting(0) in events)
        watch.run.hold()
        assert isinstance(watch.run, Timed)
        watch.run.release_after(2000.0)
        watch.run.answer(Reply(call_id=1))
        await watch.end()

    assert printed(watch.events) == "timer\nreply\n"


async def test_timers_stand_still_while_a_run_is_held(engine: Engine) -> None:
    text = TIMER_AND_REPLY.format(seconds=1)
    async with watched(engine, text, report_waiting=True) as watch:
        await watch.until(lambda events: Waiting(0) in events)
        watch.run.hold()
        await asyncio.sleep(1.2)  # longer than the timer
        while_held = printed(watch.events)
        watch.run.release()
        watch.run.answer(Reply(call_id=1))
        await watch.end()

    assert while_held == ""
    assert printed(watch.events) == "reply\ntimer\n"


async def test_an_event_of_the_hosts_own_comes_in_its_turn(engine: Engine) -> None:
    async with watched(engine, "print(1)\nawait echo(value=2)") as watch:
        (call,) = await watch.calls(1)
        watch.run.nudge(Waiting(0))
        events = await watch.until(lambda events: Waiting(0) in events)
        watch.run.answer(echo(call))
        last = await watch.end()
        watch.run.nudge(Waiting(1))

    assert events == [Printed("1\n"), Called(call), Waiting(0)]
    assert (last, watch.events[-1]) == (Ended(status="finished", value=2), last)


async def test_a_run_goes_on_where_an_earlier_reader_stopped(engine: Engine) -> None:
    async with engine.open(order("await echo(value=1)\nawait echo(value=2)", report_waiting=True)) as run:
        seen: list[Event] = []
        while not seen or not isinstance(seen[-1], Ended):
            async for event in run:
                seen.append(event)
                if isinstance(event, Called):
                    (called,) = event.calls
                if isinstance(event, Waiting):
                    break  # as the runtime does when it pauses
            run.answer(echo(called))

    calls = calls_in(seen)
    assert [(call.id, call.tool, call.arguments) for call in calls] == [(n, "echo", {"value": n}) for n in (1, 2)]
    assert seen == [Called(calls[0]), Waiting(0), Called(calls[1]), Waiting(1), Ended(status="finished", value=2)]


# stopping


@pytest.mark.parametrize("status", ["timeout", "cancelled", "limit"])
@pytest.mark.parametrize(
    "text",
    [
        "while True: pass",
        "await echo(value=1)",
        "await asyncio.gather(echo(value=1), echo(value=2))",
        "tools.echo(value=1)",
        "await asyncio.sleep(60)",
        "import time\ntime.sleep(60)",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ],
)
async def test_stop_ends_any_program_at_once_with_its_status(
    engine: Engine, text: str, status: Literal["timeout", "cancelled", "limit"]
) -> None:
    problem = Problem(kind="wall_clock", message="too long")
    async with watched(engine, f"print('on')\nawait echo(value=0)\n{text}") as watch:
        (call,) = await watch.calls(1)
        watch.run.answer(echo(call))
        await asyncio.sleep(0.02)
        watch.run.stop(status, problem)
        last = await watch.end()

    assert last == Ended(status=status, problem=problem)
    assert printed(watch.events) == "on\n"
    assert await works(engine)


async def test_stop_before_the_first_event_is_a_stop(engine: Engine) -> None:
    async with engine.open(order("while True: pass")) as run:
        run.stop("cancelled")
        events = [event async for event in run]

    assert events == [Ended(status="cancelled")]


async def test_the_first_stop_counts(engine: Engine) -> None:
    async with engine.open(order("while True: pass")) as run:
        run.stop("timeout")
        run.stop("cancelled")
        events = [event async for event in run]

    assert events == [Ended(status="timeout")]


async def test_leaving_in_the_middle_of_a_call_leaves_nothing_behind(engine: Engine) -> None:
    before = _children()
    for _ in range(3):
        async with watched(engine, "await asyncio.gather(echo(value=1), echo(value=2))") as watch:
            await watch.calls(2)
    await _until(lambda: len(_children()) <= len(before))

    assert await works(engine)


async def test_a_cancelled_reader_leaves_nothing_behind(engine: Engine) -> None:
    async def run() -> None:
        await played(engine, "await echo(value=1)", lambda call: None)

    task = asyncio.create_task(run())
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await works(engine)


def _children() -> set[str]:
    """Process ids below this one; empty where the system does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            return set(children.read().split())
    except OSError:
        return set()


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


# limits


async def test_too_many_calls_are_a_limit(engine: Engine) -> None:
    last = await ended(engine, "for n in range(9): await echo(value=n)", limits=Limits(calls=5))

    problem = Problem(kind="calls", message="the program made more than 5 tool calls")
    assert last == Ended(status="limit", problem=problem)
    assert await works(engine)


async def test_output_over_the_cap_is_cut_and_counted(engine: Engine) -> None:
    events = await played(engine, "for n in range(10): print('é' * 1_000_000)")

    kept = len(printed(events).encode())
    cut = sum(event.cut_bytes for event in events if isinstance(event, Printed))
    assert kept <= LEDGER_BYTES
    assert kept > LEDGER_BYTES - 4
    assert abs(kept + cut - 10 * 2_000_001) <= 3, "half a character at the cut may become another"
    assert events[-1] == Ended(status="finished")


async def test_a_value_over_the_limit_is_a_limit(engine: Engine) -> None:
    last = await ended(engine, "'a' * 2000", limits=Limits(value_bytes=1000))

    problem = Problem(kind="value", message="the program's value takes 2002 bytes; the limit is 1000")
    assert last == Ended(status="limit", problem=problem)
    assert await works(engine)


async def test_arguments_over_the_limit_raise_where_they_are_given(engine: Engine) -> None:
    text = "try:\n    await echo(value='a' * 2000)\nexcept ValueError as error:\n    print(error)"
    events = await played(engine, text, limits=Limits(value_bytes=1000))

    assert printed(events) == "the arguments of 'echo' take 2012 bytes; the limit is 1000\n"


@pytest.mark.parametrize("text", ["x = 'a' * 10**9", "x = []\nwhile True: x.append('a' * 10**6)"])
async def test_too_much_memory_is_a_limit(engine: Engine, text: str) -> None:
    last = await ended(engine, text, limits=Limits(memory_bytes=64 * MIB))

    assert (last.status, last.problem and last.problem.kind) == ("limit", "memory")
    assert last.problem is not None
    assert last.problem.message == "the program used more than its 64 MiB of memory"
    assert await works(engine)


async def test_too_much_cpu_time_is_a_limit(engine: Engine) -> None:
    last = await ended(engine, "while True: pass", limits=Limits(cpu_seconds=1))

    assert (last.status, last.problem and last.problem.kind) == ("limit", "cpu")
    assert await works(engine)


# one program and another


async def test_two_programs_at_once_do_not_see_each_other(engine: Engine) -> None:
    text = "mine = {name!r}\nawait echo(value=mine)\nprint(mine)\nmine"
    async with (
        watched(engine, text.format(name="left")) as left,
        watched(engine, text.format(name="right")) as right,
    ):
        calls = [*await left.calls(1), *await right.calls(1)]
        right.run.answer(Reply(call_id=1))
        left.run.answer(Reply(call_id=1))
        ends = [await left.end(), await right.end()]

    assert [call.arguments for call in calls] == [{"value": "left"}, {"value": "right"}]
    assert ends == [Ended(status="finished", value="left"), Ended(status="finished", value="right")]
    assert (printed(left.events), printed(right.events)) == ("left\n", "right\n")


async def test_nothing_of_one_program_is_left_for_the_next(engine: Engine) -> None:
    await played(engine, "import json\nleft_over = 1\nopen('/mnt/data/left', 'w').write('x')")

    events = await played(engine, "import os\nprint(os.listdir('/mnt/data'))\nleft_over")

    assert printed(events) == "[]\n"
    assert printed(events, "stderr").endswith("NameError: name 'left_over' is not defined\n")


async def test_one_program_that_dies_does_not_hurt_another(engine: Engine) -> None:
    async with watched(engine, "await echo(value='still here')") as survivor:
        (call,) = await survivor.calls(1)
        await played(engine, "1 / 0")
        async with engine.open(order("while True: pass")) as run:
            run.stop("timeout")
        await ended(engine, "x = 'a' * 10**10", limits=Limits(memory_bytes=64 * MIB))
        survivor.run.answer(echo(call))
        last = await survivor.end()

    assert last == Ended(status="finished", value="still here")


async def test_many_programs_run_at_once(engine: Engine) -> None:
    lasts = await asyncio.gather(*[ended(engine, f"await echo(value={n})") for n in range(12)])

    assert lasts == [Ended(status="finished", value=n) for n in range(12)]


async def test_a_seed_makes_two_programs_draw_the_same(engine: Engine) -> None:
    text = "import random\n[random.randint(1, 10**9) for _ in range(3)]"
    same = [(await ended(engine, text, seed=7)).value for _ in range(2)]
    other = [(await ended(engine, text)).value for _ in range(2)]

    assert same[0] == same[1]
    assert other[0] != other[1]


# files


async def test_files_come_in_and_go_out(engine: Engine) -> None:
    text = "rows = open('/mnt/data/in/a.csv').read()\nopen('out.txt', 'w').write(rows.upper())"
    last = await ended(engine, text, files=[File(name="in/a.csv", data=b"x,y\n", mime="text/csv")])

    assert [(file.name, file.data, file.mime) for file in last.files] == [("out.txt", b"X,Y\n", "text/plain")]


async def test_a_changed_file_goes_out_and_an_unchanged_one_does_not(engine: Engine) -> None:
    files = [File(name="kept.txt", data=b"same"), File(name="changed.txt", data=b"old")]
    last = await ended(engine, "open('/mnt/data/changed.txt', 'w').write('new')", files=files)

    assert [(file.name, file.data) for file in last.files] == [("changed.txt", b"new")]


async def test_files_of_a_failed_program_go_out_too(engine: Engine) -> None:
    last = await ended(engine, "with open('/mnt/data/part.txt', 'w') as out:\n    out.write('half')\n1 / 0")

    assert (last.status, [(file.name, file.data) for file in last.files]) == ("failed", [("part.txt", b"half")])


async def test_a_data_folder_over_its_limit_is_an_error_in_the_program(engine: Engine) -> None:
    text = "try:\n    with open('/mnt/data/big', 'wb') as out:\n        out.write(b'x' * 3_000_000)\nexcept OSError:\n    print('full')"
    events = await played(engine, text, limits=Limits(data_bytes=1 * MIB))

    assert printed(events) == "full\n"


# values

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])) | st.binary(max_size=20)
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=VALUES)
async def test_a_value_goes_in_as_a_reply_and_out_as_argument_and_value(engine: Engine, value: Any) -> None:
    seen: list[Any] = []

    def serve(call: Call) -> Reply:
        seen.append(call.arguments["value"])
        return Reply(call_id=call.id, value=value)

    last = await ended(engine, "await echo(value=await echo(value=0))", serve)

    assert seen == [0, value]
    assert last == Ended(status="finished", value=value)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=VALUES)
async def test_a_literal_goes_out_as_argument_and_value(engine: Engine, value: Any) -> None:
    seen: list[Any] = []

    def serve(call: Call) -> Reply:
        seen.append(call.arguments["value"])
        return Reply(call_id=call.id)

    last = await ended(engine, f"await echo(value={value!r})\n[{value!r}]", serve)

    assert (seen, last) == ([value], Ended(status="finished", value=[value]))


async def test_media_goes_in_and_out(engine: Engine) -> None:
    def serve(call: Call) -> Reply:
        return Reply(call_id=call.id, value={"pictures": [PICTURE]} if call.id == 1 else call.arguments["value"])

    text = "p = (await echo(value=1))['pictures'][0]\nprint(p.kind, p.mime, p.name, p.data)\nawait echo(value=[p])"
    events = await played(engine, text, serve)

    assert printed(events) == "image image/png dot.png b'\\x89PNG\\x00'\n"
    assert events[-1] == Ended(status="finished", value=[PICTURE])


RICH = {
    "(1, (2, 3))": [1, [2, 3]],
    "{7}": [7],
    "frozenset([7])": [7],
    "datetime.datetime(2026, 1, 31, 12, 30)": "2026-01-31T12:30:00",
    "datetime.date(2026, 1, 31)": "2026-01-31",
    "datetime.timedelta(minutes=1)": 60.0,
    "float('nan')": None,
    "1j": "1j",
    "Point(1, [Point(2, None)])": {"x": 1, "y": [{"x": 2, "y": None}]},
    "{1: 'a', None: 'b', True: 'c'}": {"1": "c", "null": "b"},
    "{'\\0b': 'not ours'}": {"\0b": "not ours"},
    "b''": b"",
    "2**100": 2**100,
    "-0.0": -0.0,
}
POINT = "import datetime\nfrom dataclasses import dataclass\n@dataclass\nclass Point:\n    x: object\n    y: object\n"


@pytest.mark.parametrize("text", RICH)
async def test_a_rich_value_becomes_a_plain_one_as_argument_and_as_value(engine: Engine, text: str) -> None:
    if text.startswith("{1:") and engine.name == "monty":
        pytest.skip("docs/limitations/monty.md: `1` and `True` are one key, spelt as the last")
    last = await ended(engine, f"{POINT}x = {text}\n[await echo(value=x), x]")

    assert last == Ended(status="finished", value=[RICH[text], RICH[text]])
    assert [type(item) for item in last.value] == [type(RICH[text])] * 2


DATA = {
    "np.int64(3)": 3,
    "np.float32(0.5)": 0.5,
    "np.bool_(True)": True,
    "np.float64('nan')": None,
    "np.array([[1, 2], [3, 4]])": [[1, 2], [3, 4]],
    "np.array([1.5, np.nan])": [1.5, None],
    "pd.DataFrame({'a': [1, 2], 'b': ['x', None]})": [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
    "pd.Series([1, 2])": [1, 2],
    "pd.Timestamp('2026-01-31 08:00')": "2026-01-31T08:00:00",
    "pd.NaT": None,
}


async def test_values_of_numpy_and_pandas_become_plain_ones(engine: Engine) -> None:
    if engine.name == "monty":
        pytest.skip("docs/limitations/monty.md: no numpy and no pandas")
    text = f"import numpy as np\nimport pandas as pd\nx = [{', '.join(DATA)}]\n[await echo(value=x), x]"
    program = Program(text=text, library_set="data")
    async with engine.open(Order(program=program, tools=TOOLS)) as run:
        async for event in run:
            if isinstance(event, Called):
                for call in event.calls:
                    run.answer(echo(call))

    assert event == Ended(status="finished", value=[list(DATA.values())] * 2)


UNSENDABLE = {
    "object_of_a_class": ("class Thing:\n    pass\n", "Thing()", "Thing"),
    "function": ("def f():\n    pass\n", "f", "function"),
    "module": ("import json\n", "json", "module"),
    "class": ("", "int", "type"),
    "exception": ("", "ValueError('x')", "ValueError"),
}


@pytest.mark.parametrize("kind", UNSENDABLE)
async def test_a_value_that_cannot_be_sent_is_sent_as_text_and_told_of(engine: Engine, kind: str) -> None:
    setup, text, name = UNSENDABLE[kind]
    last = await ended(engine, f"{setup}{{'rows': [0, {text}]}}")

    note = f"value['rows'][1] is a {name!r}, which has no JSON form; its text was sent"
    assert (last.status, last.problem, last.notes) == ("finished", None, (note,))
    assert isinstance(last.value["rows"][1], str)


@pytest.mark.parametrize("kind", UNSENDABLE)
async def test_an_argument_that_cannot_be_sent_raises_where_it_is_given(engine: Engine, kind: str) -> None:
    setup, text, name = UNSENDABLE[kind]
    program = f"{setup}try:\n    await echo(value=[{text}])\nexcept TypeError as error:\n    print(error)"
    events = await played(engine, program)

    place = f"echo argument ['value'][0] is a {name!r}, which cannot be sent; make it JSON values or bytes first\n"
    assert printed(events) == place
    assert not [event for event in events if isinstance(event, Called)]


async def test_what_is_nested_too_deeply_in_a_value_is_sent_as_text(engine: Engine) -> None:
    last = await ended(engine, "x = []\nfor _ in range(500): x = [x]\nx")

    assert (last.status, last.problem, len(last.notes)) == ("finished", None, 1)
    assert "is nested more than 200 levels deep; its text was sent" in last.notes[0]


async def test_a_large_reply_arrives_whole(engine: Engine) -> None:
    rows = [{"n": n, "name": f"row {n}"} for n in range(20_000)]
    last = await ended(
        engine,
        "rows = await echo(value=0)\n[len(rows), sum(r['n'] for r in rows)]",
        lambda call: Reply(call_id=call.id, value=rows),
    )

    assert last == Ended(status="finished", value=[20_000, sum(range(20_000))])


async def test_not_a_number_in_a_reply_reaches_the_program(engine: Engine) -> None:
    last = await ended(engine, "x = await echo(value=0)\nx != x", lambda call: Reply(call_id=call.id, value=math.nan))

    assert last == Ended(status="finished", value=True)


# the scripted engine runs no program; what it shares with the others is the order of events


async def test_the_scripted_engine_waits_for_each_answer() -> None:
    call = Call(id=1, tool="echo", arguments={"value": 1})
    engine = ScriptedEngine(Printed("a"), Called(call), Printed("b"), Ended(status="finished", value=2))

    events = await played(engine, "ignored")

    assert events == [Printed("a"), Called(call), Printed("b"), Ended(status="finished", value=2)]
    assert engine.answers == [Reply(call_id=1, value=1)]
    assert engine.orders == [order("ignored")]


async def test_the_scripted_engine_plays_on_if_it_is_told_not_to_wait() -> None:
    calls = [Called(Call(id=n, tool="echo", arguments={})) for n in (1, 2)]
    engine = ScriptedEngine(*calls, Ended(status="finished"), waits=False)
    async with watched(engine, "ignored") as watch:
        seen = await watch.calls(2)
        for call in reversed(seen):
            watch.run.answer(echo(call))
        last = await watch.end()

    assert last == Ended(status="finished")
    assert [reply.call_id for reply in engine.answers] == [2, 1]


async def test_the_scripted_engine_stops_in_the_middle_of_a_call() -> None:
    engine = ScriptedEngine(Called(Call(id=1, tool="echo", arguments={})), Ended(status="finished"))
    async with watched(engine, "ignored") as watch:
        await watch.calls(1)
        watch.run.stop("timeout")
        last = await watch.end()
        watch.run.answer(Reply(call_id=1))

    assert last == Ended(status="timeout")
    assert engine.answers == []


async def test_the_scripted_engine_plays_an_event_of_the_hosts_own_in_its_turn() -> None:
    call = Call(id=1, tool="echo", arguments={})
    engine = ScriptedEngine(Called(call), Ended(status="finished"))
    async with engine.open(order("ignored")) as run:
        run.nudge(Waiting(0))
        first = [event async for event in _up_to(run, Called)]
        run.nudge(Waiting(1))
        second = [event async for event in _up_to(run, Waiting)]
        run.answer(echo(call))
        rest = [event async for event in run]

    assert (first, second, rest) == ([Waiting(0), Called(call)], [Waiting(1)], [Ended(status="finished")])


async def _up_to(run: Run, kind: type[Event]) -> AsyncIterator[Event]:
    async for event in run:
        yield event
        if isinstance(event, kind):
            return


async def test_a_script_without_an_end_dies() -> None:
    assert await played(ScriptedEngine(Printed("a")), "ignored") == [Printed("a"), Died("the script has no last event")]
