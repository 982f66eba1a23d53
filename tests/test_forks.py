"""A fork while things are open: the parent goes on as if nothing happened, the child is told, or gets its own.

Each test is a script in an interpreter of its own: a fork of the test process would take pytest along.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401

PRELUDE = """
import asyncio, os, sys, time
from toolfold import Runtime, UsageError


def in_child(work):
    # What `work` returns or raises in a forked child, as text.
    here, there = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(there, said.encode())
        os._exit(0)
    os.close(there)
    with open(here) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


def stepped(coroutine):
    # Runs what waits for nothing, without an event loop: that of the parent is not the child's to use.
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")
"""
LEDGER_VERBS = """
VERBS = {
    "begin": [None], "note": ["x"], "learn": ["", None], "secure": ["x"], "flush": ["x"], "park": ["x"],
    "accept": ["x", []], "takeover": ["x"], "finish": ["x", None], "sweep": [], "delete": ["x"], "load": ["x"],
    "snapshot": ["x"], "find": [""], "list": [], "search": [None], "story": ["x"], "decide": ["x", 0, 1, b""],
    "decision": ["x", 0, 1], "counts": [0.0], "savings": [0.0, 1.0], "uses": [1],
    "learned": [""],
}


def refusals(ledger):
    # What every verb says in a child.
    def work():
        said = set()
        for verb, arguments in VERBS.items():
            try:
                result = getattr(ledger, verb)(*arguments)
                said.add(f"{verb} returned {stepped(result)}")
            except UsageError as error:
                said.add(str(error))
        return said

    return in_child(work)
"""
REFUSED = "this Runtime was opened before a fork and belongs to the parent process; open another one here"


def run(script: str, *arguments: str) -> str:
    # Newer Pythons warn of every fork with threads; what happens then is what is tested here.
    quiet = ["-W", "ignore:This process:DeprecationWarning"]
    command = [sys.executable, *quiet, "-c", PRELUDE + script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout


def test_a_child_is_refused_and_the_parent_gets_its_own_output() -> None:
    said = run("""
async def main():
    async with Runtime() as runtime:
        for number in range(10):
            child = in_child(lambda: stepped(runtime.run("print('child')")).stdout)
            outcome = await runtime.run(f"print('parent {number}')")
            print(child, outcome.status, repr(outcome.stdout))

asyncio.run(main())
""")

    assert said.splitlines() == [f"UsageError: {REFUSED} finished 'parent {number}\\n'" for number in range(10)]


def test_every_verb_of_a_runtime_is_refused_in_a_child() -> None:
    said = run("""
async def main():
    async with Runtime() as runtime:
        for verb in ("run", "start", "resume", "call", "check"):
            arguments = ("a", {}) if verb == "call" else ("a",)
            print(in_child(lambda: stepped(getattr(runtime, verb)(*arguments))))

asyncio.run(main())
""")

    assert set(said.splitlines()) == {f"UsageError: {REFUSED}"}


def test_the_executions_of_a_runtime_are_refused_in_a_child() -> None:
    said = run("""
async def main():
    async with Runtime() as runtime:
        executions = runtime.executions
        print(in_child(lambda: executions.ids))
        for verb in ("cancel", "release", "attach", "preload"):
            print(in_child(lambda: stepped(getattr(executions, verb)("x"))))
        print(in_child(lambda: stepped(executions.close())))
        print(executions.ids)

asyncio.run(main())
""")

    refused = f"UsageError: {REFUSED.replace('Runtime', 'ExecutionControl')}"
    assert said.splitlines() == [*[refused] * 5, "None", "()"]


def test_a_child_that_leaves_the_runtime_ends_no_guest_of_the_parent() -> None:
    said = run("""
async def main():
    async with Runtime() as runtime:
        await runtime.run("kept = 1", session="s", keep_names=True)
        waits = asyncio.create_task(runtime.run("import time\\ntime.sleep(0.5)\\nprint('whole')"))
        await asyncio.sleep(0.1)
        print(in_child(lambda: stepped(runtime.__aexit__(None, None, None))))
        print((await waits).stdout, (await runtime.run("print(kept)", session="s", keep_names=True)).stdout)

asyncio.run(main())
""")

    assert said == "None\nwhole\n 1\n\n"


def test_a_child_that_ends_as_usual_disturbs_nobody(tmp_path: Path) -> None:
    said = run(
        """
import atexit
from toolfold.ledger.sqlite.store import SqliteLedger

async def main():
    ledger = SqliteLedger(sys.argv[1])
    async with Runtime(ledger=ledger, engine_options={"isolation": "landlock"}) as runtime:
        await runtime.run("print('before')")
        pid = os.fork()
        if pid == 0:
            atexit._run_exitfuncs()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        for _ in range(3):
            print((await runtime.run("print('after')")).stdout, end="")
        print(len(await ledger.list()))
    await ledger.close()

asyncio.run(main())
""",
        str(tmp_path / "ledger.db"),
    )

    assert said == "7\nafter\nafter\nafter\n4\n"


def test_a_ledger_in_a_file_is_refused_in_a_child_and_what_had_gathered_is_written_once(tmp_path: Path) -> None:
    said = run(
        LEDGER_VERBS
        + """
from toolfold.ledger.sqlite.store import SqliteLedger

async def main():
    ledger = SqliteLedger(sys.argv[1])
    async with Runtime(ledger=ledger) as runtime:
        await runtime.run("1")
        print(refusals(ledger))
        print(in_child(lambda: stepped(ledger.close())))
        print(len(await ledger.list()))
    await ledger.close()

asyncio.run(main())
""",
        str(tmp_path / "ledger.db"),
    )

    assert said.splitlines() == [str({REFUSED.replace("Runtime", "SqliteLedger")}), "None", "1"]


def test_an_executor_has_an_engine_of_its_own_in_a_child() -> None:
    said = run("""
from toolfold.orchestrator import ProgrammaticToolExecutor, ToolCatalog

executor = ProgrammaticToolExecutor(ToolCatalog())
print(executor.execute_sync("print('first')")["output"], end="")
for number in range(3):
    print(in_child(lambda: executor.execute_sync("print('child')")["output"]), end="")
    print(executor.execute_sync("print('parent')")["output"], end="")
""")

    assert said == "first\n" + 3 * "child\nparent\n"


def test_a_fork_server_ends_with_the_parent_although_a_child_lives_on() -> None:
    said = run("""
async def main():
    async with Runtime(engine="process") as runtime:
        zygote = next(iter(runtime._engine._pools.values())).zygote.pid
        here, there = os.pipe()
        if os.fork() == 0:
            os.close(there)
            os.read(here, 1)  # until the parent is gone
            deadline = time.monotonic() + 60
            while os.path.exists(f"/proc/{zygote}") and time.monotonic() < deadline:
                time.sleep(0.01)
            print("it ended" if not os.path.exists(f"/proc/{zygote}") else "it is still there", flush=True)
            os._exit(0)
        os._exit(0)

asyncio.run(main())
""")

    assert said == "it ended\n"


@pytest.mark.long
def test_a_ledger_on_a_server_is_refused_in_a_child_and_its_connections_are_the_parents_alone(
    redis_server: RedisServer,
) -> None:
    said = run(
        LEDGER_VERBS
        + """
import atexit, gc
from toolfold.ledger.redis.store import RedisLedger

async def main():
    ledger = RedisLedger(sys.argv[1])
    async with Runtime(ledger=ledger) as runtime:
        await runtime.run("1")
        print(len(await ledger.list()))
        print(refusals(ledger))
        print(in_child(lambda: (ledger.__dict__.clear(), gc.collect()) and "freed"))
        for _ in range(3):
            await runtime.run("1")
        print(len(await ledger.list()))
    await ledger.close()

asyncio.run(main())
""",
        redis_server.url,
    )

    assert said.splitlines() == ["1", str({REFUSED.replace("Runtime", "RedisLedger")}), "freed", "4"]
