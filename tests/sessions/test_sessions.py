"""What lives on between programs."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.escapes_support.seen import descendants
from toolfold import File, Limits, Outcome, Paused, Reply, Runtime, ToolSpec, UsageError, tool
from toolfold.runtime import RuntimeSettings
from toolfold.sessions import SessionLimits, Sessions
from toolfold.sessions.stores import Change, FolderStore

ASK = ToolSpec(name="ask", python_name="ask", source="caller")


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime() as runtime:
        yield runtime


async def test_names_are_kept_where_they_are_asked_for(runtime: Runtime) -> None:
    first = await runtime.run("x = [1, 2]\ndef total():\n    return sum(x)", session="a", keep_names=True)
    second = await runtime.run("x.append(4)\ntotal()", session="a")

    assert (first.status, second.status, second.value) == ("finished", "finished", 7)


async def test_a_data_frame_is_used_by_the_next_program(runtime: Runtime) -> None:
    await runtime.run(
        "import pandas as pd\nframe = pd.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]})", session="a", keep_names=True
    )

    outcome = await runtime.run("frame.groupby('a')['b'].sum().to_dict()", session="a")

    assert outcome.value == {"1": 3, "2": 3}


async def test_files_are_kept_without_names(runtime: Runtime) -> None:
    await runtime.run("open('a.txt', 'w').write('one')\nopen('b.txt', 'w').write('two')\nx = 1", session="s")
    await runtime.run("import os\nos.remove('b.txt')\nopen('a.txt', 'a').write(' more')", session="s")

    outcome = await runtime.run(
        "import os\nprint(os.listdir('.'), open('a.txt').read(), 'x' in globals())", session="s"
    )

    assert outcome.stdout == "['a.txt'] one more False\n"
    assert [(file.name, file.data) for file in runtime.sessions.files("s")] == [("a.txt", b"one more")]


@pytest.mark.parametrize("engine", ["process", "monty"])
async def test_files_that_a_program_leaves_alone_stay_and_those_it_removes_are_named(engine: str) -> None:
    async with Runtime(engine=engine) as runtime:
        runtime.sessions.put("a", [File(name="kept.txt", data=b"1"), File(name="gone.txt", data=b"2")])

        read = await runtime.run("from pathlib import Path\nPath('/mnt/data/kept.txt').read_text()", session="a")
        removed = await runtime.run("from pathlib import Path\nPath('/mnt/data/gone.txt').unlink()", session="a")

    assert (read.status, read.value, read.deleted_files) == ("finished", "1", ())
    assert (removed.status, removed.deleted_files) == ("finished", ("gone.txt",))
    assert runtime.sessions.files("a") == (File(name="kept.txt", data=b"1"),)


async def test_files_are_kept_along_with_names(runtime: Runtime) -> None:
    await runtime.run("open('a.txt', 'w').write('one')", session="s", keep_names=True)

    outcome = await runtime.run("print(open('a.txt').read())", session="s", files=[File(name="b.txt", data=b"two")])

    assert outcome.stdout == "one\n"


async def test_two_sessions_see_nothing_of_each_other(runtime: Runtime) -> None:
    await runtime.run("secret = 1\nopen('a.txt', 'w').write('one')", session="a", keep_names=True)

    outcome = await runtime.run(
        "import os\nprint(os.listdir('.'), 'secret' in globals())", session="b", keep_names=True
    )

    assert outcome.stdout == "[] False\n"


async def test_a_program_that_is_killed_takes_its_names_along_but_not_its_files(runtime: Runtime) -> None:
    await runtime.run("x = 1\nopen('a.txt', 'w').write('one')", session="s", keep_names=True)
    await runtime.run("while True: pass", session="s", limits=Limits(wall_seconds=0.3))

    outcome = await runtime.run("print('x' in globals(), open('a.txt').read())", session="s")
    next_outcome = await runtime.run("print('x' in globals())", session="s")

    assert (outcome.stdout, next_outcome.hints) == ("False one\n", ())
    assert outcome.hints == ("session 's' has lost its variables, because its sandbox ended; its files are kept",)


async def test_a_failed_program_leaves_the_session_alive(runtime: Runtime) -> None:
    await runtime.run("x = 1", session="s", keep_names=True)
    failed = await runtime.run("y = x + 1\n1 / 0", session="s")

    outcome = await runtime.run("y", session="s")

    assert (failed.status, outcome.value) == ("failed", 2)


async def test_programs_of_one_session_take_turns(runtime: Runtime) -> None:
    await runtime.run("n = 0", session="s", keep_names=True)

    outcomes = await asyncio.gather(*[runtime.run("n += 1\nn", session="s") for _ in range(10)])

    assert sorted(outcome.value for outcome in outcomes) == list(range(1, 11))


async def test_whoever_left_a_session_paused_is_told_so_instead_of_waiting_for_itself(runtime: Runtime) -> None:
    paused = await runtime.start("x = await ask()\ny = await ask()\nx + y", tools=[ASK], session="a")
    assert isinstance(paused, Paused)

    said = []
    for attempt in (runtime.run("1", session="a"), runtime.start("1", session="a")):
        with pytest.raises(UsageError) as refused:
            await attempt
        said.append(str(refused.value))
    again = await runtime.resume(paused.execution_id, [Reply(call_id=1, value=20)])
    with pytest.raises(UsageError) as refused:
        await runtime.run("1", session="a")
    elsewhere = await runtime.run("1", session="b")
    outcome = await runtime.resume(paused.execution_id, [Reply(call_id=2, value=1)])
    afterwards = await runtime.run("2", session="a")

    text = (
        f"this session is held by execution {paused.execution_id!r}, which is paused; "
        "resume or cancel it first, or give this program another session"
    )
    assert [*said, str(refused.value)] == [text] * 3
    assert isinstance(again, Paused)
    assert isinstance(outcome, Outcome)
    assert (elsewhere.value, outcome.value, afterwards.value) == (1, 21, 2)


@pytest.mark.parametrize("end", ["cancel", "release"])
async def test_a_paused_execution_that_is_let_go_frees_its_session(end: str, runtime: Runtime) -> None:
    paused = await runtime.start("await ask()", tools=[ASK], session="a")
    assert isinstance(paused, Paused)

    await getattr(runtime.executions, end)(paused.execution_id)
    outcome = await runtime.run("1", session="a")

    assert outcome.value == 1


async def test_another_task_waits_until_the_paused_execution_was_resumed(runtime: Runtime) -> None:
    paused = await runtime.start("open('a.txt', 'w').write(await ask())", tools=[ASK], session="a")
    assert isinstance(paused, Paused)

    waiting = asyncio.create_task(runtime.run("open('a.txt').read()", session="a"))
    await asyncio.sleep(0)
    is_waiting = not waiting.done()
    await runtime.resume(paused.execution_id, [Reply(call_id=1, value="kept")])
    outcome = await waiting

    assert (is_waiting, outcome.value) == (True, "kept")


async def test_a_session_may_pause(runtime: Runtime) -> None:
    step = await runtime.start("x = await ask()", tools=[ASK], session="s", keep_names=True)
    assert isinstance(step, Paused)
    await runtime.resume(step.execution_id, [Reply(call_id=1, value=5)])

    assert (await runtime.run("x", session="s")).value == 5


@pytest.mark.parametrize("end", ["idle", "closed"])
async def test_a_session_that_ends_leaves_no_process_of_its_guest(end: str) -> None:
    seen: list[set[int]] = []

    @tool
    async def look() -> None:
        """Notes the processes while the guest is surely one of them."""
        seen.append(descendants(os.getpid()))

    limits = SessionLimits(idle_seconds=0.05 if end == "idle" else 3600)
    async with Runtime([look], settings=RuntimeSettings(session_limits=limits)) as runtime:
        await runtime.run("x = await look()", session="s", keep_names=True)
        if end == "closed":
            runtime.sessions.close("s")
        # Guests that wait for a program stay, so whatever goes is the session's own.
        while not seen[0] - descendants(os.getpid()):
            await asyncio.sleep(0.01)

        outcome = await runtime.run("'x' in globals()", session="s")

    assert outcome.value is False


async def test_a_closed_session_is_forgotten(runtime: Runtime) -> None:
    await runtime.run("x = 1\nopen('a.txt', 'w').write('one')", session="s", keep_names=True)
    runtime.sessions.close("s")

    outcome = await runtime.run("import os\nprint(os.listdir('.'), 'x' in globals())", session="s")

    assert outcome.stdout == "[] False\n"


async def test_files_that_are_too_much_are_not_kept_and_it_is_said() -> None:
    async with Runtime(settings=RuntimeSettings(session_limits=SessionLimits(max_bytes=10))) as runtime:
        outcome = await runtime.run("open('a.txt', 'w').write('x' * 11)\n1", session="s")

        assert runtime.sessions.files("s") == ()
    assert outcome.hints == ("the session's files take 11 bytes, more than 10; none of this program's is kept",)


@pytest.mark.parametrize("name", ["a" * 201, "a\nb", "\0"])
async def test_a_name_that_is_none_is_refused(runtime: Runtime, name: str) -> None:
    with pytest.raises(UsageError, match=r"invalid session name .*; give 1 to 200 printable characters"):
        await runtime.run("1", session=name)


async def test_files_on_disk_outlive_the_runtime(tmp_path: Path) -> None:
    async with Runtime(session_files=FolderStore(tmp_path)) as first:
        await first.run(
            "open('d/ü.txt', 'w').write('one') if __import__('os').mkdir('d') is None else 0", session="../x"
        )

    async with Runtime(session_files=FolderStore(tmp_path)) as second:
        outcome = await second.run("print(open('d/ü.txt').read())", session="../x")

    assert outcome.stdout == "one\n"
    assert {path.parent.parent for path in tmp_path.rglob("index.json")} == {tmp_path}


def test_sessions_on_disk_are_dropped_when_they_are_too_old(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.merge("old", Change(put=[File(name="a", data=b"1")]), max_bytes=1)

    Sessions(lambda session: None, store=store, limits=SessionLimits(max_age_seconds=-1)).sweep()

    assert (store.load("old"), list(tmp_path.iterdir())) == ((), [])


@pytest.mark.parametrize("jump", [2 * 86_400, -2 * 86_400])
def test_sessions_do_not_become_old_because_the_clock_of_the_machine_is_set(
    jump: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, machine = FolderStore(tmp_path), time.time
    store.merge("s", Change(put=[File(name="a", data=b"1")]), max_bytes=1)
    sessions = Sessions(lambda session: None, store=store)
    monkeypatch.setattr(time, "time", lambda: machine() + jump)

    sessions.sweep()

    assert [file.name for file in store.load("s")] == ["a"]


async def test_files_are_put_into_a_session_and_taken_out_from_outside(runtime: Runtime, tmp_path: Path) -> None:
    for sessions in (runtime.sessions, Sessions(lambda _: None, store=FolderStore(tmp_path))):
        sessions.put("s", [File(name="a.txt", data=b"one"), File(name="b.txt", data=b"two")])
        sessions.put("s", [File(name="a.txt", data=b"three")])
        sessions.remove("s", next(file for file in sessions.listed("s") if file.name == "b.txt"))

        assert [(file.name, file.data) for file in sessions.files("s")] == [("a.txt", b"three")]
        assert (sessions.saved_at("s") > 0, sessions.saved_at("other")) == (True, 0.0)


async def test_files_from_outside_keep_to_the_sessions_limit(tmp_path: Path) -> None:
    sessions = Sessions(lambda _: None, store=FolderStore(tmp_path), limits=SessionLimits(max_bytes=5))

    with pytest.raises(UsageError) as caught:
        sessions.put("s", [File(name="a.txt", data=b"123456")])

    assert str(caught.value) == "the session's files would take 6 bytes, more than 5"
    assert (sessions.files("s"), list(tmp_path.iterdir())) == ((), [])


async def test_many_sessions_without_files_leave_nothing_behind(tmp_path: Path) -> None:
    async with Runtime(
        session_files=FolderStore(tmp_path), settings=RuntimeSettings(session_limits=SessionLimits(max_sessions=3))
    ) as runtime:
        statuses = [(await runtime.run("1", session=f"s{number}")).status for number in range(8)]

    assert (statuses, list(tmp_path.iterdir())) == (["finished"] * 8, [])


async def test_an_execution_expires_with_what_it_printed_or_while_it_is_paused(runtime: Runtime) -> None:
    answered = asyncio.Event()
    step = await runtime.start(
        "print(1)\nawait ask()\nwhile True:\n    pass", tools=[ASK], tenant="t", on_call=lambda _: answered.set()
    )
    assert isinstance(step, Paused)
    going_on = asyncio.create_task(runtime.resume(step.execution_id, [Reply(call_id=1, value=1)]))
    await answered.wait()
    await runtime.executions.expire(step.execution_id)
    outcome = await going_on
    paused = await runtime.start("await ask()", tools=[ASK])
    await runtime.executions.expire(paused.execution_id)

    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.stdout) == ("timeout", "1\n")
    with pytest.raises(UsageError):
        await runtime.resume(paused.execution_id, [Reply(call_id=1, value=1)])


async def test_a_sweep_does_not_hold_up_programs(tmp_path: Path) -> None:
    begun, let_go = threading.Event(), threading.Event()

    class Slow(FolderStore):
        def ages(self) -> dict[str, float]:
            begun.set()
            let_go.wait()
            return super().ages()

    async with Runtime(session_files=Slow(tmp_path)) as runtime:
        outcome = await runtime.run("print(1)", session="s")
        has_begun = begun.wait(timeout=60)
        let_go.set()

    assert (outcome.stdout, has_begun) == ("1\n", True)
