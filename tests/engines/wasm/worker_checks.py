"""The worker process of the wasm engine, driven over the protocol of its slots."""

import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import wasmtime

from tests.engines.wasm.worker_client import (
    DIED,
    FINISH,
    GUEST_FRAMES,
    MIB,
    READY,
    STOP,
    Slot,
    Worker,
    cache_folder,
)
from toolfold.engines.wasm import artifacts, memory_files, wasi
from toolfold.engines.wasm.instance import Instance, Interpreter
from toolfold.engines.wasm.memory_files import FileNode
from toolfold.engines.wasm.wasi import SIGNATURES, Wasi

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cache() -> Path:
    return artifacts.prepare(cache_folder())


@pytest.fixture(scope="module")
def worker(cache: Path) -> Iterator[Worker]:
    worker = Worker(2)
    for slot in worker.slots:
        slot.expect(READY)
    yield worker
    assert worker.close() == 0


@pytest.fixture
def slot(worker: Worker) -> Slot:
    return worker.slots[0]


def test_a_program_calls_tools_one_by_one_and_together(slot: Slot) -> None:
    result = slot.run(
        "total = 0\n"
        "for i in range(20):\n    total += await echo(value=i)\n"
        "parts = await asyncio.gather(*[echo(value=i) for i in range(300)], asyncio.sleep(0.01))\n"
        "print('text', len(parts))\n(total, sum(parts[:-1]))"
    )

    assert (result.status, result.value, result.output, result.calls) == ("finished", [190, 44850], "text 301\n", 320)


def test_each_program_starts_from_the_same_memory(slot: Slot) -> None:
    assert slot.run("import builtins, json\nbuiltins.left = json.left = 1\nprint(1)").status == "finished"
    result = slot.run(
        "import builtins, json, os\n(hasattr(builtins, 'left'), hasattr(json, 'left'), os.listdir('/mnt/data'))"
    )

    assert result.value == [False, False, []]


def test_two_programs_have_other_random_numbers_and_one_seed_the_same(slot: Slot) -> None:
    text = "import random, os, uuid\n[random.random(), str(uuid.uuid4()), os.urandom(4).hex()]"
    first, second = slot.run(text).value, slot.run(text).value
    seeded = [slot.run(text, tape=[[], []], seed=5).value for _ in range(2)]

    assert all(one != other for one, other in zip(first, second, strict=True))
    assert seeded[0] == seeded[1]


def test_a_clock_of_its_own_is_told_by_datetime_too(slot: Slot) -> None:
    result = slot.run(
        "import datetime, time\n[datetime.datetime.now(datetime.UTC).year, round(time.time())]", clock=1e9, seed=1
    )

    assert result.value == [2001, 1000000000]


def test_files_go_in_and_come_out(slot: Slot) -> None:
    slot.begin(
        "import os\nold = open('in/a.bin', 'rb').read()\nos.makedirs('out/__pycache__')\n"
        "open('out/b.txt', 'w').write('ü' * 3)\nopen('out/__pycache__/c', 'w').write('x')\n"
        "os.rename('out/b.txt', 'out/d.txt')\nos.remove('gone')\nlen(old)",
        files=[["in/a.bin", b"\0" * 3_000_000], ["gone", b"1"]],
    )
    result = slot.follow()
    files = slot.finish(files=True)
    slot.expect(READY)

    assert (result.status, result.value) == ("finished", 3_000_000)
    assert files == {"in/a.bin": b"\0" * 3_000_000, "out/d.txt": "üüü".encode()}


def test_standard_input_and_low_level_output(slot: Slot) -> None:
    result = slot.run(
        "import os, sys\nos.write(1, b'low\\n')\n[input(), sys.stdin.read(), open(0).read()]", stdin=b"a\nb\n"
    )

    assert (result.value, result.output) == (["a", "b\n", ""], "low\n")


def test_a_session_keeps_its_names_files_and_limits(slot: Slot) -> None:
    results, listings = [], []
    for text in ("x = 1\nopen('f', 'w').write('1')", "x += 1\nprint(x)", "print(x, open('f').read())"):
        slot.begin(text, {"keep": True}, session=True)
        results.append(slot.follow().output)
        listings.append(slot.finish(keep=True, files=True))
    slot.order(FINISH, keep=False, files=False)
    slot.expect(READY)

    assert results == ["", "2\n", "2 1\n"]
    assert listings == [{"f": b"1"}] * 3


QUOTAS = {
    "write": "open('a', 'wb').write(bytes(9 << 20))",
    "truncate": "f = open('a', 'wb'); f.truncate(9 << 20)",
    "truncate to the moon": "f = open('a', 'wb'); f.truncate(1 << 62)",
    "far write": "import os; fd = os.open('a', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x', 1 << 40)",
    "far seek": "f = open('a', 'wb', 0); f.seek(1 << 62); f.write(b'x')",
    "unlinked": "import os\nkept = []\nfor i in range(9):\n    kept.append(open('a', 'wb', 0)); kept[-1].write(bytes(1 << 20)); os.remove('a')",
    "renamed over": "import os\nkept = []\nfor i in range(9):\n    kept.append(open('a', 'wb', 0)); kept[-1].write(bytes(1 << 20)); os.rename('a', 'b')",
    "append": "f = open('a', 'ab', 0)\nfor i in range(9): f.write(bytes(1 << 20))",
    "files": "for i in range(51): open(f'f{i}', 'w').close()",
    "folders": "import os\nfor i in range(51): os.mkdir(f'f{i}')",
    "unlinked files": "import os\nkept = []\nfor i in range(51):\n    kept.append(open('a', 'w')); os.remove('a')",
    "temporary files": "open('/tmp/a', 'wb').write(bytes(9 << 20))",
    "standard output": "import os\nfor i in range(9): os.write(1, bytes(1 << 20))",
}


@pytest.mark.parametrize("text", QUOTAS.values(), ids=QUOTAS)
def test_a_quota_holds(slot: Slot, text: str) -> None:
    result = slot.run(
        f"try:\n    exec({text!r})\nexcept OSError as error:\n    print(error.errno)\nelse:\n    print('wrote it')"
    )

    assert result.output.strip("\0\n") == "51"


def test_what_is_given_back_can_be_taken_again(slot: Slot) -> None:
    result = slot.run(
        "import os\nfor i in range(30):\n    with open('a', 'wb') as f: f.write(bytes(7 << 20))\n    f = open('a', 'r+b'); f.truncate(10); f.close()\n"
        "    os.rename('a', 'b')\n    os.mkdir('d'); os.rename('b', 'd/b'); os.remove('d/b'); os.rmdir('d')\nos.listdir()"
    )

    assert (result.status, result.value) == ("finished", [])


REFUSED = {
    "above the root": ("open('../../../../etc/passwd')", "FileNotFoundError"),
    "above another folder": (
        "open('/tmp/../mnt/data/a', 'w').close(); print(os.listdir('/tmp/../../..')); os.rmdir('a')",
        "['dev', 'mnt', 'py', 'tmp', 'usr']",
    ),
    "host file": ("open('/etc/passwd')", "FileNotFoundError"),
    "symbolic link": ("os.symlink('/etc/passwd', 'l')", "PermissionError"),
    "hard link": ("open('a', 'w').close(); os.link('a', 'b')", "PermissionError"),
    "library": ("open('/usr/local/lib/python315.zip', 'r+b')", "OSError 69"),
    "library's folder": ("open('/usr/local/lib/x', 'w')", "OSError 69"),
    "guest's code": ("os.remove('/py/guest/toolfold_guest/main.py')", "OSError 69"),
    "new top folder": ("os.mkdir('/x')", "OSError 69"),
    "between trees": ("open('a', 'w').close(); os.rename('a', '/tmp/a')", "OSError 75"),
    "folder into itself": ("os.mkdir('d'); os.mkdir('d/e'); os.rename('d', 'd/e/f')", "OSError 28"),
    "folder that is not empty": ("os.mkdir('d'); os.mkdir('d/e'); os.rmdir('d')", "OSError 55"),
    "file as a folder": ("open('a', 'w').close(); open('a/b')", "NotADirectoryError"),
    "long name": ("open('x' * 256, 'w')", "OSError 37"),
    "long path": ("open('x/' * 3000, 'w')", "OSError 37"),
    "network": ("import socket; socket.create_connection(('example.org', 80))", "gaierror -3"),
    "process": ("import subprocess; subprocess.run(['ls'])", "OSError"),
    "many files": ("open('a', 'w').close(); kept = [open('a') for i in range(300)]", "OSError 33"),
}


@pytest.mark.parametrize(("text", "kind"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(slot: Slot, text: str, kind: str) -> None:
    result = slot.run(
        f"import os\ntry:\n    exec({text!r})\nexcept Exception as error:\n"
        "    print(type(error).__name__, getattr(error, 'errno', ''))"
    )

    assert result.output.split()[: len(kind.split())] == kind.split(), result


def test_a_program_that_computes_for_too_long_dies(slot: Slot) -> None:
    slot.begin("print('before')\nwhile True: pass", {"cpu_seconds": 0.3})
    result = slot.follow()
    slot.finish()
    slot.expect(READY)

    assert (result.output, result.died["reason"]) == ("before\n", "cpu")


def test_time_that_passes_in_a_wait_is_not_counted(slot: Slot) -> None:
    result = slot.run("import time\ntime.sleep(0.5)\nawait asyncio.sleep(0.5)\n1", {"cpu_seconds": 0.5})

    assert (result.status, result.value) == ("finished", 1)


@pytest.mark.parametrize("text", ["x = bytearray(1 << 30)", "x = []\nwhile True: x.append(bytearray(1 << 20))"])
def test_memory_ends_at_its_limit(slot: Slot, text: str) -> None:
    result = slot.run(text, {"memory_bytes": 64 * MIB})

    assert result.status == "memory" or result.died["reason"] == "memory"


def test_a_program_that_catches_a_memory_error_goes_on(slot: Slot) -> None:
    result = slot.run(
        "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    pass\nlen(bytearray(30 << 20))",
        {"memory_bytes": 64 * MIB},
    )

    assert result.value == 30 << 20


STOPPED = {
    "spins": "while True: pass",
    "in C": "x = pow(7, 10 ** 7)",
    "in a regular expression": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "sleeps": "import time\ntime.sleep(60)",
    "sleeps in a loop": "import time\nwhile True: time.sleep(0)",
    "sleeps in a select": "import select\nselect.select([], [], [], 60)",
    "waits for a timer": "await asyncio.sleep(60)",
    "waits for a future": "await asyncio.get_running_loop().create_future()",
    "spins in the loop": "while True: await asyncio.sleep(0)",
    "catches everything": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
}


@pytest.mark.parametrize("text", STOPPED.values(), ids=STOPPED)
def test_a_stop_ends_it_whatever_it_does(slot: Slot, text: str) -> None:
    slot.begin(f"print('now', flush=True)\n{text}")
    slot.expect(GUEST_FRAMES)
    slot.send(STOP)
    died = slot.follow().died
    slot.finish()
    slot.expect(READY)

    assert died == {"reason": "stopped", "detail": ""}


def test_a_stop_ends_a_wait_for_a_reply_and_files_are_still_there(slot: Slot) -> None:
    slot.begin("open('a', 'w').write('1')\nawait echo(value=1)")
    slot.receive()
    slot.send(STOP)
    died = slot.follow().died
    files = slot.finish(files=True)
    slot.expect(READY)

    assert (died["reason"], files) == ("stopped", {"a": b"1"})


def test_a_program_can_be_finished_before_it_ends_and_before_it_begins(slot: Slot) -> None:
    slot.begin("while True: pass")
    slot.finish()
    slot.expect(READY)
    slot.finish()
    slot.expect(READY)

    assert slot.run("1").value == 1


def test_deep_recursion_ends_that_program_alone(worker: Worker) -> None:
    deep, other = worker.slots
    other.begin("x = await echo(value=1)\nx + 1")
    results = [
        deep.run("def f(n): return f(n + 1)\nf(0)"),
        deep.run(
            "import sys\nsys.setrecursionlimit(10 ** 7)\ndef f(n): return f(n + 1)\nf(0)", {"memory_bytes": 64 * MIB}
        ),
        deep.run("x = None\nfor i in range(10 ** 6): x = (x,)\ndel x"),
        deep.run("import json\njson.loads('[' * 10 ** 6)"),
        deep.run("import os\nos.abort()"),
        deep.run("import os\nos._exit(3)"),
    ]
    rest = other.follow()
    other.finish()
    other.expect(READY)

    assert [result.status or result.died["reason"] for result in results] == [
        "failed", "memory", "trap", "failed", "trap", "exit",
    ]  # fmt: skip
    assert rest.value == 2


def test_printed_text_leaves_before_the_program_ends(slot: Slot) -> None:
    slot.begin("import time\nprint('one')\ntime.sleep(0.15)\nprint('two')\nwhile True: pass")
    texts = [slot.receive()[1], slot.receive()[1]]
    slot.send(STOP)
    slot.expect(DIED)
    slot.finish()
    slot.expect(READY)

    assert [b"one" in texts[0], b"two" in texts[1]] == [True, True]


def test_a_worker_ends_with_its_standard_input(cache: Path) -> None:
    worker = Worker(1)
    worker.slots[0].expect(READY)
    worker.slots[0].begin("while True: pass")

    assert worker.close() == 0


def test_pandas_is_there_and_pictures_are_drawn(cache: Path) -> None:
    worker = Worker(1, "data")
    (slot,) = worker.slots
    slot.expect(READY)
    slot.begin(
        "import pandas as pd\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('p.png')\n"
        "pd.DataFrame({'a': [1, 2, 1], 'b': [1.0, 2.0, 3.0]}).groupby('a')['b'].sum().to_dict()"
    )
    result = slot.follow()
    files = slot.finish(files=True)
    slot.expect(READY)
    worker.close()

    assert (result.status, result.value) == ("finished", {"1": 4.0, "2": 2.0})
    assert {name: data[:4] for name, data in files.items()} == {"p.png": b"\x89PNG"}


# ----------------------------------------------------------------------------------------------------
# Functions of an instance, called with whatever a hostile guest may hand over.

NUMBERS = [
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    16,
    64,
    255,
    1000,
    1 << 16,
    (1 << 17) - 1,
    1 << 17,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
]
LARGE = [*NUMBERS, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
TEXTS = [
    b"a",
    b"b/c",
    b"../..",
    b"/etc",
    b"a\0b",
    b"\xff",
    b"d",
    b".",
    b"..",
    b"d/",
    b"a/",
    b"tmp/x",
    b"mnt/data/y",
    b"dev/stdin",
]


def _hostile_module(linker_names: dict[str, str]) -> str:
    """A module that only hands its arguments on, and whose allocator gives an address outside of its memory."""
    kinds = {"i": "i32", "I": "i64"}
    imports, functions = [], []
    for name, signature in linker_names.items():
        module = "host" if name == "call" else "wasi_snapshot_preview1"
        parameters = " ".join(kinds[letter] for letter in signature)
        imports.append(f'(import "{module}" "{name}" (func ${name} (param {parameters}) (result i32)))')
        reads = " ".join(f"(local.get {number})" for number in range(len(signature)))
        functions.append(f'(func (export "{name}_") (param {parameters}) (result i32) (call ${name} {reads}))')
    return (
        f'(module {" ".join(imports)} (memory (export "memory") 2) {" ".join(functions)}'
        " (global $next (mut i32) (i32.const 0))"
        ' (func (export "host_alloc") (param i32) (result i32) (global.get $next))'
        ' (func (export "turn") (param i32 i32) (result i32) (i32.const 0))'
        ' (func (export "set") (param i32) (global.set $next (local.get 0))))'
    )


def _check_quota(files: Wasi, streams: list[FileNode]) -> None:
    """What the nodes hold and what is left is always what there was."""
    for quota, top in ((files.data_quota, files.data), (files.temp_quota, files._temp)):
        nodes = {id(node): node for _, node in memory_files.walk_tree(top)}
        nodes |= {id(fd.node): fd.node for fd in files._descriptors.values() if fd.node.quota is quota and not fd.name}
        nodes |= {id(node): node for node in streams if node.quota is quota}
        assert quota.bytes + sum(node.size for node in nodes.values()) == 1 << 20
        assert quota.files + len(nodes.keys() - {id(top), *map(id, streams)}) == 20


@pytest.mark.parametrize("seed", range(4))
def test_no_argument_of_a_function_does_any_harm(cache: Path, seed: int) -> None:
    """Each function through real WebAssembly; nothing but an error number, or an end of that guest, may follow."""
    chance = random.Random(seed)
    machine = Interpreter(artifacts.locate(cache))
    machine.module = wasmtime.Module(machine.engine, _hostile_module({**SIGNATURES, "call": "iiii"}))
    instance = Instance(machine, lambda wait, frames: b"reply" * chance.randrange(3), lambda: None)
    instance.files.wait = lambda seconds: None
    instance.files.limit(1 << 20, 20)
    streams = [instance.files._descriptors[fd].node for fd in range(3)]
    codes: dict[str, set[int]] = {}
    for turn in range(5000):
        name, signature = chance.choice([*SIGNATURES.items(), ("call", "iiii")])
        values = [chance.choice(NUMBERS if letter == "i" else LARGE) for letter in signature]
        if chance.random() < 0.6:
            values[0] = chance.choice([0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12])
        if name.startswith("path_") and chance.random() < 0.9:
            text = chance.choice(TEXTS)
            instance.view(256, len(text))[:] = text
            start = 2 if name in ("path_open", "path_filestat_get", "path_filestat_set_times") else 1
            values[start : start + 2] = [256, len(text)]
        if chance.random() < 0.3:
            instance.view(64, 32)[:] = b"".join(chance.choice(NUMBERS).to_bytes(4, "little") for _ in range(8))
        instance.exports["set"](instance._store, _signed(chance.choice(NUMBERS), 32))
        arguments = [
            _signed(value, 32 if letter == "i" else 64) for value, letter in zip(values, signature, strict=True)
        ]
        try:
            code = instance.exports[f"{name}_"](instance._store, *arguments)
            codes.setdefault(name, set()).add(code)
        except (wasmtime.Trap, wasmtime.WasmtimeError):
            assert instance.ending is not None
        assert instance.mishap is None, (name, values, instance.mishap)
        if turn % 20 == 0:
            _check_quota(instance.files, streams)
    _check_quota(instance.files, streams)
    instance.close()

    assert codes.keys() == {*SIGNATURES, "call"}
    assert {0, wasi.BAD_FD, wasi.FAULT, wasi.INVALID} <= set().union(*codes.values())


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def test_the_worker_gives_up_what_it_does_not_need(cache: Path, unproven: list[str]) -> None:
    worker = Worker(1)
    layers = json.loads(worker.slots[0].expect(READY))["layers"]
    worker.close()
    for layer in {"no_new_privs", "rlimits", "capabilities", "landlock", "seccomp"} - set(layers):
        unproven.append(f"the worker of the wasm engine does not have {layer!r} here")


# ----------------------------------------------------------------------------------------------------
# The cache


@pytest.fixture
def half_cache(cache: Path, tmp_path: Path) -> Path:
    """With the compiled code, which takes a minute to make, and without snapshots."""
    code = artifacts.locate(cache).code
    os.link(code, tmp_path / code.name)
    return tmp_path


def test_what_a_killed_process_left_is_not_used_and_many_prepare_once(half_cache: Path) -> None:
    leftover = artifacts.locate(half_cache).memory_of("bare").with_suffix(".memory.part")
    leftover.write_bytes(b"half")
    reports: list[list[str]] = [[] for _ in range(4)]
    with ThreadPoolExecutor(len(reports)) as pool:
        folders = list(pool.map(lambda lines: artifacts.prepare(half_cache, lines.append), reports))

    assert folders == [half_cache] * 4
    assert artifacts.locate(half_cache).is_complete
    assert sorted(path.suffix for path in half_cache.iterdir()) == ["", ".code", ".json", ".json", ".memory", ".memory"]
    assert sum(line.startswith("loading") for lines in reports for line in lines) == 2


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(artifacts.ArtifactError) as failure:
        artifacts.prepare(tmp_path / "file" / "cache")

    assert str(failure.value) == (
        "the wasm engine's cache folder cannot be made (Not a directory); set TOOLFOLD_WASM_CACHE to a folder"
        " that can be written, or run 'toolfold engines prepare wasm' beforehand"
    )


def test_code_that_others_could_have_written_is_not_loaded(half_cache: Path) -> None:
    half_cache.chmod(0o777)

    with pytest.raises(artifacts.ArtifactError) as failure:
        artifacts.check_private(artifacts.locate(half_cache))

    assert str(failure.value) == "others may write to the wasm engine's cache; remove it, or chmod go-w its folder"


def test_what_can_be_imported_is_known_without_running_it() -> None:
    modules = artifacts.modules()

    assert {"numpy", "pandas", "matplotlib", "lxml", "PIL"} <= modules
    assert {"json", "toolfold_guest"}.isdisjoint(modules)
