"""A locked guest, seen from inside: what it may do, what it may not, what stays usable."""

import asyncio
import gc
import os
import signal

import pytest

from tests.engines.process.probing import answer, guest, jail
from toolfold.engines.process.doctor import run_in_probe
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, NONE, Layer, Tier
from toolfold.errors import EngineUnavailable
from toolfold.models import MIB, Limits

both_tiers = pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK], ids=lambda tier: tier.name)


async def test_a_guest_sees_neutral_paths_and_an_interpreter_as_usual() -> None:
    text = """
import os, sys
result = {
    "cwd": os.getcwd(), "root": sorted(os.listdir("/")), "data": os.listdir("."), "temp": os.listdir("/tmp"),
    "executable": sys.executable, "prefix": sys.prefix, "user": os.getuid(), "pid": os.getpid(),
    "host": os.uname().nodename, "environment": sorted(os.environ), "exit": callable(exit), "argv": sys.argv,
}
"""
    async with guest() as one:
        seen = await answer(one, text)

    root = set(seen.pop("root"))
    assert root - {"lib", "lib32", "lib64"} == {
        ".tree", "content", "dev", "etc", "home", "mnt", "py", "tmp", "usr", "workspace",
    }  # fmt: skip
    assert seen == {
        "cwd": "/mnt/data",
        "data": [],
        "temp": [],
        "executable": "/py/bin/python3",
        "prefix": "/py",
        "user": 1000,
        "pid": 1,
        "host": "sandbox",
        "environment": [
            "ARROW_DEFAULT_MEMORY_POOL", "HOME", "JOBLIB_MULTIPROCESSING", "LC_ALL", "MKL_NUM_THREADS", "MPLBACKEND", "MPLCONFIGDIR",
            "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TZ", "XDG_DATA_DIRS",
        ],
        "exit": True,
        "argv": [""],
    }  # fmt: skip


async def test_no_module_and_no_code_names_a_path_of_the_host() -> None:
    text = """
import asyncio, gc, sys, types
files = {getattr(module, "__file__", None) for module in sys.modules.values()}
files |= {one.__code__.co_filename for one in gc.get_objects() if isinstance(one, types.FunctionType)}
result = sorted(name for name in files if name and not name.startswith(("/py/", "<")))
"""
    async with guest() as one:
        assert await answer(one, text) == []


async def test_temporary_files_stay_out_of_the_data_folder_in_place_too() -> None:
    text = "import os, tempfile; tempfile.mkdtemp(); result = os.listdir('.')"
    async with guest(LANDLOCK) as one:
        assert await answer(one, text) == []


@both_tiers
async def test_a_guest_has_four_descriptors(tier: Tier) -> None:
    async with jail(tier) as zygote:
        guests = zygote.spawn_many(3)
        await asyncio.gather(*[one.ready for one in guests])
        text = """
import os
result = []
for fd in range(4096):
    try:
        os.fstat(fd)
    except OSError:
        continue
    result.append(fd)
"""
        seen = [await answer(one, text) for one in guests]
        for one in guests:
            one.close()

    assert seen == [[0, 1, 2, 3]] * 3


@both_tiers
async def test_the_kernel_says_that_the_layers_are_on(tier: Tier) -> None:
    text = """
import ctypes, resource
prctl = ctypes.CDLL(None).prctl
death = ctypes.c_int()
prctl(2, ctypes.byref(death))
class Head(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
caps = (ctypes.c_uint32 * 6)(*[9] * 6)
refused = ctypes.CDLL(None).capget(ctypes.byref(Head(0x20080522, 0)), caps)
result = {
    "no new privileges": prctl(39, 0, 0, 0, 0), "seccomp mode": prctl(21, 0, 0, 0, 0), "death signal": death.value,
    "core": resource.getrlimit(resource.RLIMIT_CORE), "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "cpu": resource.getrlimit(resource.RLIMIT_CPU), "locked": resource.getrlimit(resource.RLIMIT_MEMLOCK),
    "capget is refused": refused,
}
"""
    async with guest(tier) as one:
        seen = await answer(one, text)

    assert seen == {
        "no new privileges": 1,
        "seccomp mode": 2,
        "death signal": signal.SIGKILL,
        "core": [1, 1],
        "files": [256, 256],
        "cpu": [120, 120],
        "locked": [0, 0],
        "capget is refused": -1,
    }


@both_tiers
async def test_capabilities_are_gone(tier: Tier) -> None:
    """Without seccomp, so that the kernel can be asked."""
    text = """
import ctypes
class Head(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
caps = (ctypes.c_uint32 * 6)(*[9] * 6)
ctypes.CDLL(None).capget(ctypes.byref(Head(0x20080522, 0)), caps)
result = list(caps)
"""
    async with guest(tier.without("seccomp")) as one:
        assert await answer(one, text) == [0] * 6


async def test_the_tree_is_read_only_and_the_own_folders_execute_nothing() -> None:
    text = """
import os
result = {path: os.statvfs(path).f_flag & 15 for path in ("/", "/.tree", "/py/lib", "/usr/lib", "/tmp", "/mnt/data")}
"""
    read_only, nosuid, nodev, noexec = 1, 2, 4, 8
    async with guest() as one:
        seen = await answer(one, text)

    assert seen == {
        "/": nosuid | nodev | noexec,
        "/.tree": read_only | nosuid | nodev,
        "/py/lib": read_only | nosuid | nodev,
        "/usr/lib": read_only | nosuid | nodev,
        "/tmp": nosuid | nodev | noexec,
        "/mnt/data": nosuid | nodev | noexec,
    }


async def test_both_folders_are_capped_in_bytes_and_files() -> None:
    text = """
import os
def fill(path):
    try:
        with open(path, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
    except OSError as error:
        size, code = os.stat(path).st_size, error.errno
        os.unlink(path)
        return size, code
def count(folder):
    made = 0
    try:
        while True:
            os.mkdir(f"{folder}/{made}")
            made += 1
    except OSError as error:
        return made, error.errno
result = [fill("/mnt/data/big"), fill("/tmp/big"), count("/mnt/data")]
"""
    limits = Limits(data_bytes=2 * MIB, temp_bytes=MIB, data_files=20)
    async with guest(limits=limits) as one:
        seen = await answer(one, text)

    # 27: the file's own limit, the larger of the two; 28: the folder is full. The output file counts in /tmp.
    assert seen == [[2 * MIB, 27], [MIB, 28], [20, 28]]


async def test_memory_threads_and_open_files_end_at_their_limits() -> None:
    text = """
import os, threading
def memory():
    try:
        bytearray(memory_bytes)
    except MemoryError:
        return "refused"
def threads():
    wait, started = threading.Event(), []
    try:
        while True:
            one = threading.Thread(target=wait.wait)
            one.start()
            started.append(one)
    except RuntimeError:
        wait.set()
        for one in started:
            one.join()
        return len(started)
def files():
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        for fd in held:
            os.close(fd)
        return len(held)
result = [memory(), threads(), files()]
"""
    limits = Limits(memory_bytes=128 * MIB, threads=8, open_files=32)
    async with guest(limits=limits) as one:
        assert await answer(one, text, memory_bytes=130 * MIB) == ["refused", 8, 28]


@both_tiers
async def test_endless_work_ends_at_the_cpu_limit_also_with_signals_blocked(tier: Tier) -> None:
    text = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    pass
"""
    async with guest(tier, Limits(cpu_seconds=1)) as one:
        with pytest.raises(ConnectionError):
            await run_in_probe(one, text, {})

        assert await one.wait() == -signal.SIGKILL


@both_tiers
async def test_what_programs_use_of_the_standard_library_works(tier: Tier) -> None:
    text = """
import asyncio, concurrent.futures, datetime, os, pathlib, shutil, sqlite3, tempfile, threading, time, uuid, zoneinfo
async def sleepers():
    loop = asyncio.get_running_loop()
    await asyncio.gather(*[asyncio.sleep(0) for _ in range(3)])
    return await loop.run_in_executor(None, threading.get_ident) != threading.get_ident()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    squares = list(pool.map(lambda n: n * n, range(4)))
with tempfile.TemporaryDirectory() as folder:
    database = sqlite3.connect(f"{folder}/x.db")
    database.execute("create table t (a)"), database.execute("insert into t values (1)"), database.commit()
    rows = database.execute("select a from t").fetchall()
    database.close()
pathlib.Path("a.txt").write_text("text")
os.symlink("a.txt", "link"), os.rename("a.txt", "b.txt"), shutil.disk_usage("."), time.sleep(0.001)
shutil.copyfile("b.txt", "c.txt")
noon = datetime.datetime(2026, 1, 1, 12, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo")).utcoffset().seconds
result = [asyncio.run(sleepers()), squares, rows, sorted(os.listdir(".")), noon, len(str(uuid.uuid4())), os.cpu_count() > 0]
"""
    async with guest(tier) as one:
        seen = await answer(one, text)

    assert seen == [True, [0, 1, 4, 9], [[1]], ["b.txt", "c.txt", "link"], 32400, 36, True]


async def test_copies_keep_modes_and_times_where_the_tree_is_the_guests_own() -> None:
    text = """
import os, shutil
open("a", "w").close()
os.chmod("a", 0o640)
os.utime("a", (1, 2))
shutil.copy2("a", "b")
result = [os.stat("b").st_mode & 0o777, os.stat("b").st_mtime]
"""
    async with guest() as one:
        assert await answer(one, text) == [0o640, 2.0]


@pytest.mark.long
@both_tiers
async def test_the_data_libraries_work_under_the_filter(tier: Tier) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    text = """
import os
os.environ["MPLCONFIGDIR"] = os.environ.get("TMPDIR", "/tmp")
import numpy, pandas, scipy.stats, sklearn.linear_model, matplotlib.pyplot as plt
frame = pandas.DataFrame({"a": [1, 2, 1], "b": [1.0, 2.0, 3.0]})
frame.to_csv("frame.csv")
plt.plot([1, 2]), plt.savefig("plot.png")
model = sklearn.linear_model.LinearRegression().fit([[0], [1], [2]], [1, 3, 5])
result = [
    frame.groupby("a")["b"].sum().to_dict() == {1: 4.0, 2: 2.0}, len(pandas.read_csv("frame.csv")), os.stat("plot.png").st_size > 1000,
    round(float(model.coef_[0]), 6), round(float(numpy.linalg.inv(numpy.eye(300) * 2).sum()), 6), round(float(scipy.stats.norm.cdf(0)), 6),
]
"""
    async with guest(tier) as one:
        assert await answer(one, text) == [True, 3, True, 2.0, 150.0, 0.5]


async def test_what_c_code_prints_lands_in_files_behind_one_and_two() -> None:
    text = """
import os
os.write(1, b"out"), os.write(2, b"err")
result = [os.pread(fd, 100, 0).decode() for fd in (1, 2)]
"""
    async with guest() as one:
        assert await answer(one, text) == ["out", "err"]


@both_tiers
async def test_the_data_folder_stays_readable_after_the_guest_died(tier: Tier) -> None:
    async with guest(tier) as one:
        await answer(one, "open('made.txt', 'w').write('made')")
        one.kill()
        status = await one.wait()
        fd = os.open("made.txt", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=one.data_fd)
        with os.fdopen(fd) as file:
            assert (status, file.read()) == (-signal.SIGKILL, "made")


async def test_descriptors_that_a_guest_pushes_are_dropped() -> None:
    async with guest() as one:
        gc.collect()  # what earlier tests dropped holds descriptors until it is collected, which may be at any moment
        before = set(os.listdir("/proc/self/fd"))
        text = "import array, socket\nsocket.socket(fileno=3).sendmsg([b'x'], [(1, 1, array.array('i', [0, 1, 2]))])"
        with pytest.raises((ConnectionError, ValueError)):
            await asyncio.wait_for(run_in_probe(one, text + "\nimport os; os._exit(0)", {}), 60)

        assert set(os.listdir("/proc/self/fd")) == before


async def test_a_guest_that_hoards_descriptors_in_flight_stops_no_other_guest() -> None:
    """The kernel counts them per user, which all guests of a host share outside. The filter alone would refuse the first."""
    text = """
import os, socket
keep = socket.socketpair()
try:
    while True:
        socket.send_fds(keep[0], [b"x"], [0] * 50)
except OSError as error:
    result = os.strerror(error.errno)
import builtins
builtins.keep = keep
"""
    async with jail(NAMESPACE.without("seccomp")) as zygote:
        hoarder = zygote.spawn()
        await hoarder.ready
        refusal = await answer(hoarder, text)
        others = zygote.spawn_many(3)
        await asyncio.gather(*[one.ready for one in others])
        seen = [await answer(one, "result = 1") for one in others]
        for one in (hoarder, *others):
            one.close()

    assert (refusal, seen) == ("Too many references: cannot splice", [1, 1, 1])


async def test_limits_can_be_given_for_one_guest() -> None:
    text = "import resource; result = resource.getrlimit(resource.RLIMIT_NOFILE)[0]"
    async with jail() as zygote:
        first, second = zygote.spawn(Limits(open_files=77)), zygote.spawn()
        await first.ready
        await second.ready
        seen = [await answer(one, text) for one in (first, second)]
        first.close()
        second.close()

    assert seen == [77, 256]


async def test_the_exit_status_is_what_the_zygote_saw() -> None:
    async with guest() as one:
        with pytest.raises(ConnectionError):
            await run_in_probe(one, "import os; os._exit(42)", {})

        assert await one.wait() == 42


@pytest.mark.parametrize("layer", sorted(NAMESPACE.layers))
async def test_a_tier_with_one_layer_off_still_starts(layer: Layer) -> None:
    async with guest(NAMESPACE.without(layer)) as one:
        assert await answer(one, "result = 6 * 7") == 42


async def test_tier_none_runs_and_says_that_nothing_is_isolated() -> None:
    async with jail(NONE) as zygote:
        one = zygote.spawn()
        await one.ready
        seen = await answer(one, "import socket; socket.socket(); result = 1")
        one.close()

    assert seen == 1
    assert zygote.notes[-1] == "the program is not isolated from the host"


async def test_a_zygote_that_is_gone_gives_guests_that_say_so() -> None:
    async with jail() as zygote:
        pass

    one = zygote.spawn()

    with pytest.raises(EngineUnavailable) as caught:
        await one.ready
    assert (str(caught.value), await one.wait(), zygote.closed) == (
        "the fork server is gone; start another one",
        -9,
        True,
    )
    one.close()
