"""The wasm engine as its users meet it: chosen by `auto`, prepared and examined by the CLI, with threads in place."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.engines.wasm.worker_client import cache_folder
from tests.killed import ASK
from toolfold import Outcome, Paused, Reply, Runtime, RuntimeSettings
from toolfold.engines.registry import AutoEngine
from toolfold.engines.scripted import ScriptedEngine
from toolfold.engines.wasm import artifacts
from toolfold.errors import EngineUnavailable
from toolfold.ledger.sqlite.store import SqliteLedger

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]


class NoJail(ScriptedEngine):
    """As the process engine where there are no namespaces."""

    async def __aenter__(self) -> "NoJail":
        raise EngineUnavailable("cannot isolate here: no namespaces; allow them")


@pytest.fixture(scope="module", autouse=True)
def cache() -> Path:
    return artifacts.prepare(cache_folder())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async def price(ticker: str) -> int:
        return {"A": 10, "B": 20}[ticker]

    async with Runtime([price], engine="wasm", settings=RuntimeSettings(learn=False)) as runtime:
        yield runtime


def toolfold(*arguments: str, cache: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TOOLFOLD_WASM_CACHE": cache or str(cache_folder())}
    command = [sys.executable, "-m", "toolfold", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


async def test_auto_takes_it_where_no_jail_can_be_built_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    async with Runtime(engine=AutoEngine(NoJail())) as runtime:
        outcome = await runtime.run("print(1)")

    note = "ran on the wasm engine because cannot isolate here: no namespaces"
    assert (outcome.stdout, outcome.engine, outcome.isolation, outcome.hints) == ("1\n", "wasm", "wasm", (note,))
    assert capsys.readouterr().err == f"toolfold: {note}; allow them\n"


async def test_where_nothing_fits_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(EngineUnavailable) as failure:
        await AutoEngine(NoJail()).__aenter__()

    assert str(failure.value).startswith(
        "cannot isolate here: no namespaces; allow them; or, where no jail can be built, "
    )
    assert str(failure.value).endswith("install 'toolfold[wasm]'")


async def test_it_is_prepared_by_a_command() -> None:
    done = toolfold("engines", "prepare", "wasm", "--json")
    refused = toolfold("engines", "prepare", "wasm", cache="/dev/null/cache")

    assert (done.returncode, json.loads(done.stdout)) == (0, {"engine": "wasm", "folder": str(cache_folder())})
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr == (
        "toolfold: the wasm engine's cache folder cannot be made (Not a directory); set TOOLFOLD_WASM_CACHE to a folder"
        " that can be written, or run 'toolfold engines prepare wasm' beforehand\n"
    )


async def test_the_doctor_says_whether_it_is_ready_and_what_holds_around_its_workers(unproven: list[str]) -> None:
    ready = json.loads(toolfold("doctor", "--engine", "wasm", "--json").stdout)["wasm"]
    other = toolfold("doctor", "--engine", "wasm", cache="/dev/null/cache")

    assert ready[0] == {"name": "engine wasm", "ok": True, "detail": "CPython 3.15 in WebAssembly"}
    assert [finding["name"] for finding in ready[1:]] == list(artifacts.WORKER_LAYERS)
    unproven.extend(f"around wasm workers: {finding['name']}" for finding in ready if not finding["ok"])
    assert (other.returncode, other.stdout.partition(" folder")[0]) == (
        3,
        "engine wasm: NOT READY, the wasm engine's cache",
    )


THREADS = {
    "executor": (
        "from concurrent.futures import ThreadPoolExecutor, as_completed\n"
        "with ThreadPoolExecutor(2, initializer=print, initargs=('first',)) as pool:\n"
        "    futures = [pool.submit(pow, n, 2) for n in range(3)]\n"
        "    print(sorted(f.result() for f in as_completed(futures)), pool.submit(int, 'x').exception())",
        "first\n[0, 1, 4] invalid literal for int() with base 10: 'x'\n",
    ),
    "nested": (
        "import asyncio\nasync def two(t): return await price(t)\ndef one(t): return asyncio.run(two(t))\n"
        "print(await asyncio.gather(*[asyncio.to_thread(one, t) for t in 'AB']))",
        "[10, 20]\n",
    ),
    "processes": (
        "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "with multiprocessing.Pool(2) as pool:\n    print(pool.map(abs, [-1, 2]), pool.starmap(pow, [(2, 3)]))\n"
        "with ProcessPoolExecutor() as pool:\n    print(list(pool.map(abs, [-3], chunksize=2)))\n"
        "queue = multiprocessing.Queue()\nprocess = multiprocessing.Process(target=queue.put, args=(4,))\n"
        "process.start()\nprocess.join()\nprint(queue.get(), process.exitcode)",
        "[1, 2] [8]\n[3]\n4 0\n",
    ),
    "queue": (
        "import queue, threading\nq = queue.Queue()\ndef work():\n"
        "    while True:\n        print(q.get())\n        q.task_done()\n"
        "for i in range(2): q.put(i)\nthreading.Thread(target=work, daemon=True).start()\nq.join()\n"
        "print(threading.current_thread().name)",
        "0\n1\nMainThread\n",
    ),
}


@pytest.mark.parametrize(("text", "output"), THREADS.values(), ids=THREADS)
async def test_what_threads_would_do_is_done_in_place(runtime: Runtime, text: str, output: str) -> None:
    outcome = await runtime.run(text)

    assert (outcome.status, outcome.stdout, outcome.stderr) == ("finished", output, "")


async def test_a_wait_for_another_thread_fails_with_words(runtime: Runtime) -> None:
    outcome = await runtime.run("import queue\nqueue.Queue().get()")

    assert str(outcome.problem) == (
        "line 2: RuntimeError: nothing can end this wait: this engine runs threads one after the other,"
        " when they are started\nqueue.Queue().get()"
    )


async def test_a_program_with_pandas_does_not_wait_for_its_import(runtime: Runtime) -> None:
    text = "import pandas as pd\npd.DataFrame({'a': [1, 2, 1]}).groupby('a').size().tolist()"
    await runtime.run(text)  # starts a worker of that library set

    outcomes = [await runtime.run(text) for _ in range(5)]

    assert [outcome.value for outcome in outcomes] == [[2, 1]] * 5
    assert min(outcome.seconds for outcome in outcomes) < 0.3


async def test_its_clock_of_cpu_time_is_the_programs_own(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "import time\nbegan = time.process_time()\ntime.sleep(0.2)\n[began, time.process_time()]"
    )

    assert all(0 <= seconds < 0.2 for seconds in outcome.value)


async def test_names_and_files_of_a_session_stay_and_a_paused_program_is_replayed_elsewhere(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    text = "import random\nn = random.random()\nfirst = await ask(q=n)\n[n, first, await ask(q=2)]"
    async with Runtime(engine="wasm", ledger=ledger) as first:
        await first.run("x = 1\nopen('f.txt', 'w').write('one')", session="s", keep_names=True)
        kept = await first.run("print(x, open('f.txt').read())", session="s")
        step = await first.start(text, tools=[ASK])
        assert isinstance(step, Paused)
        asked = step.calls[0].arguments["q"]
        step = await first.resume(step.execution_id, [Reply(call_id=1, value="a")])
    async with Runtime(engine="wasm", ledger=ledger) as second:
        assert isinstance(step, Paused)
        outcome = await second.resume(step.execution_id, [Reply(call_id=2, value="b")])

    assert kept.stdout == "1 one\n"
    assert isinstance(outcome, Outcome)
    assert outcome.value == [asked, "a", "b"]
