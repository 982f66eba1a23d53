"""Whatever a program uses up, it ends with a clear outcome in time, and the next one runs normally."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import toolfold
from toolfold.errors import EngineUnavailable
from toolfold.models import MIB, Limits, Outcome
from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")

WALLS = (0.5, 5.0, 50.0)
"""Each is tried where the one before was over before a busy machine had begun with the program."""
MEMORY = {"wall_seconds": 100.0, "memory_bytes": 256 * MIB}


class Meter:
    """Counts how many calls of `wait_a_little` run at once."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0


METER = Meter()


@toolfold.tool
async def wait_a_little() -> int:
    """Takes a moment."""
    METER.now += 1
    METER.most = max(METER.most, METER.now)
    await asyncio.sleep(0.01)
    METER.now -= 1
    return 1


@toolfold.tool
def long_text(size: int) -> str:
    """A text of that many characters."""
    return "x" * size


@toolfold.tool
def measure(text: str) -> int:
    """How long a text is."""
    return len(text)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(unproven: list[str]) -> AsyncIterator[Runtime]:
    runtime = Runtime([wait_a_little, long_text, measure], engine="process")
    try:
        await runtime.__aenter__()
    except EngineUnavailable as error:
        unproven.append(f"limits of the process engine: {error}")
        pytest.skip(str(error))
    yield runtime
    await runtime.__aexit__()


async def run(runtime: Runtime, text: str, **limits: Any) -> Outcome:
    """The outcome, with the next program unharmed."""
    outcome = await runtime.run(text, limits=Limits(**limits))
    following = await runtime.run("print(6 * 7)")
    assert (following.status, following.stdout) == ("finished", "42\n")
    return outcome


async def run_over_time(runtime: Runtime, text: str) -> tuple[Outcome, float]:
    """The outcome of a program that prints and then goes on for ever, and the seconds that it had."""
    for seconds in WALLS:
        outcome = await run(runtime, text, wall_seconds=seconds)
        if outcome.stdout:
            break
    return outcome, seconds


def how(outcome: Outcome) -> tuple[str, str | None]:
    return outcome.status, outcome.problem.kind if outcome.problem else None


ENDLESS = {
    "loops": "while True:\n    pass",
    "loops_in_c": "sum(iter(int, 1))",
    "loops_in_a_coroutine": "while True:\n    await asyncio.sleep(0)",
    "sleeps": "import time\ntime.sleep(1000)",
    "sleeps_in_a_coroutine": "await asyncio.sleep(1000)",
    "blocks_all_signals": (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True:\n    pass"
    ),
    "catches_everything": "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
    "waits_for_a_thread": "import threading\nthreading.Thread(target=lambda: sum(iter(int, 1))).start()",
    "prints": "while True:\n    print('x' * 100)",
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
async def test_a_program_that_would_go_on_for_ever_ends_at_its_wall_clock(text: str, runtime: Runtime) -> None:
    outcome, seconds = await run_over_time(runtime, "print('begun', flush=True)\n" + text)

    assert outcome.stdout[:6] == "begun\n"
    assert how(outcome) == ("timeout", "wall_clock")
    assert outcome.problem is not None
    assert outcome.problem.message == f"the program took longer than {seconds:g} s"


@pytest.mark.parametrize(
    "name", ["loops", "loops_in_a_coroutine", "sleeps", "sleeps_in_a_coroutine", "blocks_all_signals"]
)
async def test_what_was_printed_before_the_wall_clock_needs_no_flush(name: str, runtime: Runtime) -> None:
    outcome, _ = await run_over_time(runtime, "print('begun')\n" + ENDLESS[name])

    assert (outcome.status, outcome.stdout) == ("timeout", "begun\n")


TOO_MUCH = {
    "allocates_4_gb": ("block = bytearray(4 << 30)", ("limit", "memory")),
    "allocates_bit_by_bit": ("blocks = []\nwhile True:\n    blocks.append(bytes(1 << 20))", ("limit", "memory")),
    "returns_1_gb": ("'x' * (1 << 30)", ("limit", "memory")),
    "returns_20_mb": ("'x' * (20 << 20)", ("limit", "value")),
    "returns_20_mb_as_result": ("result = ['x' * 1000] * 20_000", ("limit", "value")),
    "opens_5000_files": ("files = [open('/dev/null') for _ in range(5000)]", ("failed", "exception")),
    "starts_600_threads": (
        "import threading, time\n"
        "for _ in range(600):\n    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
        ("failed", "exception"),
    ),
    "recurses": ("def f():\n    return f()\nf()", ("failed", "exception")),
    "recurses_in_c": (
        "import sys\nsys.setrecursionlimit(10**9)\nnest = []\nfor _ in range(10**6):\n    nest = [nest]\nrepr(nest)",
        ("failed", "exception"),
    ),
    "leaves_the_interpreter": ("import os\nos._exit(3)", ("failed", "exception")),
    "crashes_the_interpreter": ("import ctypes\nctypes.string_at(0)", ("failed", "exception")),
    "aborts": ("import os\nos.abort()", ("failed", "exception")),
}


@pytest.mark.parametrize(("text", "ends"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
async def test_a_program_that_takes_too_much_ends_by_its_limit(
    text: str, ends: tuple[str, str], runtime: Runtime
) -> None:
    outcome = await run(runtime, text, **MEMORY)

    assert how(outcome) == ends


async def test_cpu_time_is_limited_apart_from_the_wall_clock(runtime: Runtime) -> None:
    outcome = await run(runtime, "while True:\n    pass", cpu_seconds=1, wall_seconds=100.0)

    assert how(outcome) == ("limit", "cpu")


async def test_output_is_kept_up_to_the_cap_and_the_rest_is_counted(runtime: Runtime) -> None:
    outcome = await run(runtime, "for _ in range(200):\n    print('x' * 1_048_575)", wall_seconds=100.0)

    assert (outcome.status, outcome.problem) == ("finished", None)
    assert outcome.stdout == "x" * 65_536
    assert outcome.stdout_cut_bytes == 200 * MIB - 65_536


async def test_output_is_cut_on_a_character_boundary(runtime: Runtime) -> None:
    outcome = await run(runtime, "print('é' * 100, end='')", output_bytes=101)

    assert (outcome.stdout, outcome.stdout_cut_bytes) == ("é" * 50, 100)


async def test_a_traceback_is_whole_at_the_smallest_limit(runtime: Runtime) -> None:
    outcome = await run(runtime, "import sys\nprint('x' * 99, 'y' * 99, file=sys.stderr)\n1 / 0", output_bytes=1)

    assert (outcome.stderr, outcome.stderr_cut_bytes) == (
        "x\n"
        "Traceback (most recent call last):\n"
        '  File "<program>", line 3, in __main__\n'
        "    1 / 0\n"
        "ZeroDivisionError: division by zero\n",
        199,
    )


async def test_output_before_a_timeout_is_kept(runtime: Runtime) -> None:
    text = "print('y' * 100_000)\nawait wait_a_little()\nwhile True:\n    pass"

    outcome, _ = await run_over_time(runtime, text)

    assert how(outcome) == ("timeout", "wall_clock")
    assert (outcome.stdout, outcome.stdout_cut_bytes) == ("y" * 65_536, 34_465)


async def test_more_calls_than_allowed_end_the_program(runtime: Runtime) -> None:
    outcome = await run(runtime, "for n in range(10):\n    await measure(text='x' * n)", calls=5)

    assert how(outcome) == ("limit", "calls")
    assert [record.arguments["text"] for record in outcome.calls] == ["x" * n for n in range(5)]


async def test_calls_beyond_those_in_flight_wait_for_their_turn(runtime: Runtime) -> None:
    METER.most = 0

    outcome = await run(
        runtime, "print(sum(await asyncio.gather(*[wait_a_little() for _ in range(12)])))", calls_in_flight=3
    )

    assert (outcome.status, outcome.stdout, METER.most) == ("finished", "12\n", 3)


async def test_a_reply_that_is_too_large_is_an_error_at_the_call(runtime: Runtime) -> None:
    text = "try:\n    await long_text(size=100_000)\nexcept ToolError as error:\n    print(error)"

    outcome = await run(runtime, text, reply_bytes=1000)

    assert outcome.stdout == "'long_text' returned 97.7 KiB; the limit is 1000 bytes\n"


async def test_arguments_that_are_too_large_are_an_error_at_the_call(runtime: Runtime) -> None:
    text = "try:\n    await measure(text='x' * 5000)\nexcept ValueError as error:\n    print(error)"

    outcome = await run(runtime, text, value_bytes=1000)

    assert outcome.stdout == "the arguments of 'measure' take 5011 bytes; the limit is 1000\n"
    assert outcome.calls == ()


async def test_the_data_folder_holds_so_many_bytes(runtime: Runtime) -> None:
    outcome = await run(runtime, "open('a', 'wb').write(bytes(3 << 20))", data_bytes=1 * MIB, temp_bytes=8 * MIB)

    assert how(outcome) == ("failed", "exception")
    assert outcome.problem is not None
    assert outcome.problem.message == "OSError: [Errno 28] No space left on device"


async def test_the_data_folder_holds_so_many_files(runtime: Runtime) -> None:
    outcome = await run(runtime, "for n in range(100):\n    open(str(n), 'w').close()", data_files=20)

    assert how(outcome) == ("failed", "exception")
    assert outcome.problem is not None
    assert outcome.problem.message.startswith("OSError: [Errno 28] No space left on device")
    assert len(outcome.files) == 20


async def test_a_program_text_that_is_too_long_never_starts(runtime: Runtime) -> None:
    outcome = await run(runtime, "# " + "x" * 2000, program_bytes=1000)

    assert how(outcome) == ("rejected", "too_large")


async def test_a_symlink_a_pipe_and_a_sparse_file_do_no_harm(runtime: Runtime) -> None:
    text = (
        "import os\n"
        "os.symlink('/etc/passwd', 'link')\n"
        "open('real.txt', 'w').write('kept')\n"
        "for make in (lambda: os.mkfifo('pipe'), lambda: os.truncate(os.open('hole', os.O_RDWR | os.O_CREAT), 2 << 30)):\n"
        "    try:\n        make()\n    except OSError as error:\n        print(error.errno)\n"
    )

    outcome = await run(runtime, text)

    assert outcome.status == "finished"
    assert [(file.name, file.data) for file in outcome.files if file.data] == [("real.txt", b"kept")]
