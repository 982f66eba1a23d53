"""`multiprocessing` and `ProcessPoolExecutor`, on threads: programs print what they print in CPython."""

import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from toolfold.runtime import Runtime

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(tools=[add], engine="process") as runtime:
        yield runtime


_PROGRAMS = {
    "pool": """
with mp.Pool(3) as pool:
    print(pool.map(square, range(5)), list(pool.imap(square, [1, 2])), sorted(pool.imap_unordered(square, [3, 1])))
    print(pool.starmap(pow, [(2, 3), (3, 2)]), pool.apply(square, (4,)), pool.apply_async(square, (7,)).get(10))
    result = pool.map_async(square, [5])
    result.wait()
    print(result.successful(), result.get(), pool.starmap_async(pow, [(2, 2)]).get())
pool = mp.Pool()
print(pool.map(square, range(20), chunksize=3))
pool.close()
pool.join()
""",
    "errors of a pool": """
with mp.Pool(2) as pool:
    for work, items in ((square, ["a"]), (lambda x: x, [1])):
        try:
            pool.map(work, items)
        except Exception as error:
            print(type(error).__name__)
    print(pool.map(square, [2]))
""",
    "pool with an initializer": """
import signal
def prepare(text):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global prefix
    prefix = text
def name(x):
    return prefix + str(x)
with mp.Pool(2, prepare, ("n",), maxtasksperchild=1) as pool:
    print(pool.map(name, range(4)))
""",
    "arguments are copies": """
def change(numbers, names):
    numbers.append(1)
    names["a"][0] = 2
numbers, names = [], {"a": [1]}
process = mp.Process(target=change, args=(numbers, names))
process.start()
process.join()
print(numbers, names)
""",
    "how processes end": """
def fail():
    raise ValueError("mine")
def spin():
    while True:
        pass
codes = []
for target, args in ((square, (2,)), (fail, ()), (sys.exit, (3,)), (sys.exit, ("text",)), (sys.exit, ())):
    process = mp.Process(target=target, args=args)
    print(process.exitcode, process.is_alive())
    process.start()
    process.join(10)
    codes.append((process.exitcode, process.is_alive()))
for target, args, end in ((time.sleep, (60,), "terminate"), (spin, (), "kill")):
    process = mp.Process(target=target, args=args, daemon=True)
    process.start()
    process.join(0)
    codes.append(process.is_alive())
    getattr(process, end)()
    process.join()
    codes.append(process.exitcode)
print(codes, mp.active_children())
""",
    "names and ids": """
class Named(mp.Process):
    def run(self):
        self.result = 1
        queue.put((mp.current_process().name, self.name, os.getpid() != main))
queue, main = mp.Queue(), os.getpid()
for process in (Named(), Named(name="other")):
    process.start()
    process.join()
    print(queue.get(), hasattr(process, "result"), process.pid != main)
print(mp.current_process().name, os.getpid() == main)
""",
    "queue after join": """
def put(queue, number):
    queue.put({"n": number})
queue = mp.Queue()
processes = [mp.Process(target=put, args=(queue, number)) for number in range(4)]
for process in processes:
    process.start()
for process in processes:
    process.join()
print(sorted(queue.get()["n"] for _ in processes), queue.empty())
""",
    "joinable queue": """
def consume(queue, total):
    while (number := queue.get()) is not None:
        with total.get_lock():
            total.value += number
        queue.task_done()
    queue.task_done()
queue, total = mp.JoinableQueue(), mp.Value("i", 0)
worker = mp.Process(target=consume, args=(queue, total), daemon=True)
worker.start()
for number in (1, 2, 3, None):
    queue.put(number)
queue.join()
print(total.value)
""",
    "pipe": """
def answer(connection):
    connection.send([connection.recv(), 2])
    connection.close()
mine, its = mp.Pipe()
process = mp.Process(target=answer, args=(its,))
process.start()
its.close()
mine.send("x")
print(mine.recv())
try:
    mine.recv()
except EOFError:
    print("end")
process.join()
""",
    "locks, values and arrays": """
def count(value, array, lock):
    for _ in range(200):
        with lock:
            value.value += 1
    array[0] = 9.5
value, array, lock, event = mp.Value("i", 0), mp.Array("d", [1, 2]), mp.Lock(), mp.Event()
processes = [mp.Process(target=count, args=(value, array, lock)) for _ in range(4)]
processes.append(mp.Process(target=event.set))
for process in processes:
    process.start()
print(event.wait(10))
for process in processes:
    process.join()
print(value.value, array[:])
""",
    "manager": """
def note(names, items, key):
    names[key] = key * 2
    items.append(key)
with mp.Manager() as manager:
    names, items = manager.dict(), manager.list([7])
    processes = [mp.Process(target=note, args=(names, items, key)) for key in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with mp.Pool(2) as pool:
        pool.starmap(note, [(names, items, 3), (names, items, 4)])
    print(sorted(names.items()), sorted(items), dict(names)[4])
    queue, space = manager.Queue(), manager.Namespace(n=1)
    queue.put(1)
    space.n += 1
    print(queue.get(), space.n)
""",
    "own manager": """
from multiprocessing.managers import BaseManager
class Counter:
    def __init__(self):
        self.number = 0
    def increase(self):
        self.number += 1
        return self.number
class Own(BaseManager):
    pass
Own.register("Counter", Counter)
with Own() as manager:
    counter = manager.Counter()
    process = mp.Process(target=counter.increase)
    process.start()
    process.join()
    print(counter.increase())
""",
    "executor": """
from concurrent.futures import ProcessPoolExecutor, as_completed
with ProcessPoolExecutor(max_workers=3) as executor:
    futures = {executor.submit(square, number): number for number in range(5)}
    print(sorted((futures[future], future.result()) for future in as_completed(futures)))
    print(list(executor.map(pow, [2, 3], [3, 2], chunksize=2)))
    for work, item in ((square, "a"), (lambda x: x, 1)):
        try:
            executor.submit(work, item).result()
        except Exception as error:
            print(type(error).__name__)
for _ in range(10):
    with ProcessPoolExecutor(2) as executor:
        print(sum(executor.map(square, range(9))), end=" ")
""",
    "executor in a loop": """
import asyncio
from concurrent.futures import ProcessPoolExecutor
async def main():
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor() as executor:
        return await asyncio.gather(*(loop.run_in_executor(executor, square, n) for n in range(4)))
print(asyncio.run(main()))
""",
    "start methods": """
context = mp.get_context("fork")
queue = context.SimpleQueue()
process = context.Process(target=queue.put, args=(3,))
process.start()
print(queue.get(), process.join(), mp.cpu_count() >= 1, mp.parent_process())
""",
    "not joined": """
def late():
    time.sleep(0.1)
    print("late", flush=True)
mp.Process(target=late).start()
mp.Process(target=time.sleep, args=(60,), daemon=True).start()
print("end", flush=True)
""",
    "many pools": """
for _ in range(20):
    with mp.Pool(4) as pool:
        pool.map(square, range(4))
print("done")
""",
}  # fmt: skip
_START = "import multiprocessing as mp, os, sys, time\ndef square(x):\n    return x * x\n"


@pytest.mark.parametrize("name", _PROGRAMS)
async def test_a_program_with_processes_prints_what_it_prints_in_cpython(name: str, runtime: Runtime) -> None:
    text = _START + _PROGRAMS[name]
    cpython = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)

    outcome = await runtime.run(text)

    assert (outcome.status, outcome.stdout) == ("finished", cpython.stdout)


async def test_an_exception_in_a_process_is_printed_as_in_cpython(runtime: Runtime) -> None:
    text = "import multiprocessing\n\ndef work():\n    raise ValueError('mine')\n\nprocess = multiprocessing.Process(target=work)\n"
    outcome = await runtime.run(text + "process.start()\nprocess.join()\nprocess.exitcode")

    lines = [line for line in outcome.stderr.splitlines() if "multiprocessing" not in line and "self." not in line]
    assert (outcome.value, lines[:2], lines[-1]) == (
        1,
        ["Process Process-1:", "Traceback (most recent call last):"],
        "ValueError: mine",
    )
    assert '  File "<program>", line 4, in work' in lines


@pytest.mark.parametrize(
    "text",
    [
        "import multiprocessing\nwith multiprocessing.Pool(2) as pool:\n    sums = pool.map(work, range(4))\nsums",
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as pool:\n    sums = list(pool.map(work, range(4)))\nsums",
        "import multiprocessing\nqueue = multiprocessing.Queue()\nfor n in range(4):\n    process = multiprocessing.Process(target=lambda n: queue.put(work(n)), args=(n,))\n    process.start()\n    process.join()\n[queue.get() for _ in range(4)]",
        "import asyncio, multiprocessing\nasync def main(n):\n    return await add(a=n)\ndef run(n):\n    return asyncio.run(main(n))\nwith multiprocessing.Pool(2) as pool:\n    sums = pool.map(run, range(4))\nsums",
    ],
)  # fmt: skip
async def test_workers_call_tools(text: str, runtime: Runtime) -> None:
    outcome = await runtime.run("def work(n):\n    return tools.add(a=n)\n" + text)

    assert (outcome.value, len(outcome.calls)) == ([1, 2, 3, 4], 4)


async def test_a_worker_that_is_terminated_between_calls_makes_no_more(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "import multiprocessing\ncalls = []\ndef work():\n    while True:\n        calls.append(tools.add(a=1))\n"
        "process = multiprocessing.Process(target=work)\nprocess.start()\nwhile len(calls) < 3:\n    pass\n"
        "process.terminate()\nprocess.join()\nwhile process._popen._thread.is_alive():\n    pass\n"
        "made = len(calls)\n[process.exitcode, tools.add(a=5), len(calls) == made]"
    )

    assert outcome.value == [-15, 6, True]


async def test_a_process_still_cannot_be_forked(runtime: Runtime) -> None:
    outcome = await runtime.run(
        "import multiprocessing, os\nmultiprocessing.Pool(1).close()\ndef work():\n    os.fork()\nglobals()['work']()"
    )

    assert (outcome.status, outcome.problem and outcome.problem.message[:41]) == (
        "failed",
        "PermissionError: [Errno 1] 'os.fork' cann",
    )
