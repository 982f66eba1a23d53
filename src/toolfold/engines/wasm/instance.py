"""Instances of the interpreter: their functions, limits, and snapshots of their memory.

An instance at rest is its linear memory: the interpreter's code changes no table and no segment, and its only other
variable, the stack pointer, is back where it was when a turn has ended. So a snapshot is a file of that memory, and a
new instance gets it mapped over its own, page by page as it writes.

No exception of ours crosses into the C code that called: `ctypes` would print and forget it. Whatever goes wrong in
such a function is noted in `Instance.ending` where it ends the guest, and is a number to the guest everywhere else.
"""

from __future__ import annotations

import contextlib
import ctypes
import encodings.cp437  # noqa: F401  # by `zipfile`, when a worker can no longer open a file
import io
import json
import mmap
import os
import re
import struct
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from typing import IO, Any, Final, NamedTuple, cast

import wasmtime

from toolfold.engines.wasm import artifacts
from toolfold.engines.wasm.artifacts import VALUE_BYTES, Cache, EpochFunction, HostFunction
from toolfold.engines.wasm.memory_files import FileNode, Mount, WasiError, read_only_tree
from toolfold.engines.wasm.wasi import FAULT, INVALID, SIGNATURES, SUCCESS, Wasi

PAGE_BYTES: Final = mmap.PAGESIZE
WASM_PAGE_BYTES: Final = 1 << 16
MOST_REQUEST_BYTES: Final = 1 << 28
EPOCH_SECONDS: Final = 0.01
STACK_BYTES: Final = 32 << 20
"""Of a thread that runs instances."""
_NO_HOST, _FAULT = 0xFFFFFFFF, 0xFFFFFFFE  # what the door gives when it cannot answer
_EXITED: Final = 256
"""From here on, what a turn gives is an exit status and not how it went."""
_NEAR_LIMIT_BYTES: Final = 8 << 20
"""A trap with less memory left than that is put down to it."""
_MOST_IDLE_EPOCHS: Final = 50
_ENVIRONMENT: Final = {
    "HOME": "/tmp", "MPLBACKEND": "agg", "MPLCONFIGDIR": "/tmp", "PYTHONTZPATH": "", "TMPDIR": "/tmp",
}  # fmt: skip
_GUEST_FOLDER: Final = "/py/guest"
_PREPARE: Final = (
    f"import sys; sys.path.append({_GUEST_FOLDER!r})\n"
    "from toolfold_guest import module_copies, wasm_door\nwasm_door.prepare({!r})"
)
SERVE: Final = "from toolfold_guest import wasm_door\nwasm_door.serve()"
_MAP_FIXED: Final = 0x10
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23
_MOST_GAP_PAGES: Final = 8
"""Between parts that are read, which then are one."""
_u32, _u64 = struct.Struct("<I"), struct.Struct("<Q")
_running = threading.local()
"""The instance whose code this thread is in: its `instance`."""


class Interrupted(Exception):
    """Raised by a host function to end the guest at once."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class Ending(NamedTuple):
    """Why the guest will not speak again."""

    reason: str
    detail: str


class Interpreter:
    """What all instances of a process share."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.engine = artifacts.new_engine()
        self.module = artifacts.load_code(self.engine, cache)
        self.linker = wasmtime.Linker(self.engine)
        self._functions: list[Any] = []
        """Kept, because C code has their addresses."""
        self._define("host", "call", "iiii", _answer_door)
        wasi_module = "wasi_snapshot_preview1"
        for name, signature in SIGNATURES.items():
            self._define(wasi_module, name, signature, _wasi_function(name, signature))
        self._define(wasi_module, "sched_yield", "", _yield)
        self._define(wasi_module, "proc_exit", "i", _exit, gives_number=False)
        self.mounts = _mounts(cache)
        self._active: set[object] = set()
        self._has_active = threading.Event()

    def start_epochs(self) -> None:
        """Without them nothing interrupts an instance."""
        threading.Thread(target=self._tick, daemon=True).start()

    def _define(self, module: str, name: str, signature: str, function: Any, *, gives_number: bool = True) -> None:
        c_function = HostFunction(function)
        self._functions.append(c_function)
        artifacts.define(self.linker, module, name, signature, c_function, gives_number=gives_number)

    def set_active(self, item: object, *, is_active: bool) -> None:
        """Epochs pass while there is anything for which they need to."""
        if is_active:
            self._active.add(item)
            if not self._has_active.is_set():
                self._has_active.set()
        else:
            self._active.discard(item)

    def _tick(self) -> None:
        idle_epochs = 0
        while True:
            time.sleep(EPOCH_SECONDS)
            self.engine.increment_epoch()
            idle_epochs = 0 if self._active else idle_epochs + 1
            # Not at once: to be woken again would cost the next call.
            if idle_epochs > _MOST_IDLE_EPOCHS:
                self._has_active.clear()
                if not self._active:
                    self._has_active.wait()


class _MappedFile(mmap.mmap):
    """To be read as a file, too; of before Python 3.13, without this method."""

    def seekable(self) -> bool:
        return True


class _PlotData(FileNode):
    """What matplotlib reads past the library, unpacked when it does."""

    __slots__ = ("_children", "_stdlib")

    def __init__(self, stdlib: _MappedFile) -> None:
        self._stdlib = stdlib
        super().__init__()

    @property
    def children(self) -> dict[str, FileNode] | None:
        if not self._children:
            # All of a file that it needs.
            with zipfile.ZipFile(cast("IO[bytes]", self._stdlib)) as whole:
                inner = whole.read(f"{artifacts.PLOT_DATA}.zip")
            with zipfile.ZipFile(io.BytesIO(inner)) as data:
                top = FileNode()
                top.children = self._children
                for name in data.namelist():
                    if not name.endswith("/"):
                        top.place(name, FileNode(data.read(name)))
        return self._children

    @children.setter
    def children(self, children: dict[str, FileNode] | None) -> None:
        self._children = children or {}


def _mounts(cache: Cache) -> tuple[Mount, ...]:
    with open(cache.source / artifacts.STDLIB, "rb") as file:
        mapping = _MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
    library = FileNode()
    assert library.children is not None
    library.children[artifacts.STDLIB_NAME] = FileNode(memoryview(mapping))
    guest = FileNode()
    assert guest.children is not None
    guest.children["toolfold_guest"] = read_only_tree(str(cache.guest), ".py")
    return (
        Mount(artifacts.STDLIB_FOLDER, library),
        Mount(f"{artifacts.STDLIB_FOLDER}/{artifacts.STDLIB_NAME}/{artifacts.PLOT_DATA}", _PlotData(mapping)),
        Mount(_GUEST_FOLDER, guest),
    )


class Instance:
    """One interpreter. Its thread is the one that made it."""

    def __init__(
        self, machine: Interpreter, exchange: Callable[[int, bytes], bytes], interrupt: Callable[[], None]
    ) -> None:
        """`exchange` answers the door; `interrupt` is called at each epoch. Both may raise `Interrupted`."""
        self.exchange, self.interrupt = exchange, interrupt
        self.files = Wasi(machine.mounts, _ENVIRONMENT)
        self.ending: Ending | None = None
        self.mishap: BaseException | None = None
        """What a function of `Wasi` raised and should not have; the guest only sees `INVALID`."""
        self._memory_limit = 0
        self._is_allocating = False
        _running.instance = self
        self._store = store = wasmtime.Store(machine.engine)
        store.set_epoch_deadline(1)
        artifacts.c_function("wasmtime_store_epoch_deadline_callback")(
            artifacts.address_of(store.ptr()), _on_epoch, None, None
        )
        exports: Any = machine.linker.instantiate(store, machine.module).exports(store)
        self.exports = exports
        self._memory = exports["memory"]
        self._turn, self._allocate = exports["turn"], exports["host_alloc"]
        self._context = artifacts.address_of(store._context())
        self._allocate_address = ctypes.addressof(self._allocate._func)
        self._memory_address = ctypes.addressof(self._memory._memory)
        self._cell = (ctypes.c_uint64 * 2)()
        self._trap = ctypes.c_void_p()
        self._cell_address, self._trap_address = ctypes.addressof(self._cell), ctypes.addressof(self._trap)
        self.files.memory.refresh = self._whole_memory
        self.view = self.files.memory.view

    @property
    def base(self) -> int:
        return artifacts.address_of(self._memory.data_ptr(self._store))

    @property
    def size(self) -> int:
        return int(artifacts.c_function("wasmtime_memory_data_size")(self._context, self._memory_address))

    def _whole_memory(self) -> memoryview:
        return memoryview((ctypes.c_ubyte * self.size).from_address(self.base)).cast("B")

    def grow_to(self, size: int) -> None:
        missing = size - self.size
        if missing > 0:
            self._memory.grow(self._store, missing // WASM_PAGE_BYTES)

    def limit_memory(self, size: int) -> None:
        self._memory_limit = size
        self._store.set_limits(memory_size=size)

    def turn(self, text: str) -> None:
        """Have the interpreter run that text; `ending` says why it cannot go on, if so."""
        data = text.encode()
        _running.instance = self
        try:
            self.files.memory.write(pointer := self._new_block(len(data)), data)
            status = self._turn(self._store, pointer, len(data))
            if status >= _EXITED:
                self._end("exit", str(status - _EXITED))
            elif status:
                self._end("trap", self.files.text_of(2).strip() or "the interpreter failed")
        except Interrupted as interruption:
            self._end(interruption.reason, interruption.detail)
        except WasiError:
            self._end("trap", "no memory for the program")
        except (wasmtime.Trap, wasmtime.ExitTrap, wasmtime.WasmtimeError) as trap:
            # The reason is at the end, after the names of the interpreter's functions.
            lines = [line.strip() for line in str(trap).splitlines() if line.strip()]
            detail = re.sub(r"^(\d+: )?(wasm trap: )?", "", lines[-1]) if lines else "trap"
            is_memory = self._memory_limit and self.size > self._memory_limit - _NEAR_LIMIT_BYTES
            self._end("memory" if is_memory else "trap", detail)

    def _end(self, reason: str, detail: str) -> None:
        self.ending = self.ending or Ending(reason, detail)

    def close(self) -> None:
        self.files.memory.release()
        self._store.close()
        if getattr(_running, "instance", None) is self:
            del _running.instance

    def _new_block(self, size: int) -> int:
        """Address of memory that the guest's own allocator gave; whoever writes there checks it."""
        self._cell[0] = size
        self._is_allocating = True
        try:
            failure = _call_unchecked(self._context, self._allocate_address, self._cell_address, 1, self._trap_address)
        finally:
            self._is_allocating = False
        if failure or self._trap.value:
            raise Interrupted("trap", "the guest's allocator failed")
        return self._cell[0] & 0xFFFFFFFF

    def answer_door(self, pointer: int, size: int, reply_pointer: int, reply_size: int) -> int:
        # The allocator of an honest guest never gets here, and what it would wait for is us.
        if self._is_allocating or not 4 <= size <= MOST_REQUEST_BYTES:
            return _FAULT
        view = self.view
        request = bytes(view(pointer, size))
        view(reply_pointer, 4)
        view(reply_size, 4)
        reply = self.exchange(_u32.unpack_from(request)[0], request[4:])
        if not reply:
            view(reply_pointer, 4)[:] = view(reply_size, 4)[:] = b"\0\0\0\0"
            return SUCCESS
        block = self._new_block(len(reply))
        if not block:
            return _FAULT
        view(block, len(reply))[:] = reply
        view(reply_pointer, 4)[:] = _u32.pack(block)
        view(reply_size, 4)[:] = _u32.pack(len(reply))
        return SUCCESS


_call_unchecked = artifacts.c_function("wasmtime_func_call_unchecked")
_string_at = ctypes.string_at
_result_at = ctypes.c_uint32.from_address
_four = struct.Struct("<I12xI12xI12xI12x").unpack


def _answer_door(_environment: int, _caller: int, values: int, _count: int) -> int | None:
    try:
        _result_at(values).value = _running.instance.answer_door(*_four(_string_at(values, 4 * VALUE_BYTES)))
    except WasiError:
        _result_at(values).value = _FAULT
    except BaseException as error:  # noqa: BLE001  # see the head of this module
        return _ended_by(error)
    return None


def _wasi_function(name: str, signature: str) -> Callable[..., int | None]:
    unpack = struct.Struct("<" + "".join({"i": "I12x", "I": "Q8x"}[letter] for letter in signature)).unpack
    size = len(signature) * VALUE_BYTES
    function = getattr(Wasi, name)

    def call(_environment: int, _caller: int, values: int, _count: int) -> int | None:
        try:
            result = function(_running.instance.files, *unpack(_string_at(values, size)))
        except WasiError as error:
            result = error.number
        except Interrupted as interruption:
            return _ended_by(interruption)
        except MemoryError:
            result = FAULT
        except BaseException as error:  # noqa: BLE001  # see the head of this module
            _running.instance.mishap = error
            result = INVALID
        _result_at(values).value = result
        return None

    return call


def _yield(_environment: int, _caller: int, values: int, _count: int) -> None:
    _result_at(values).value = SUCCESS


def _exit(_environment: int, _caller: int, values: int, _count: int) -> int | None:
    return _ended_by(Interrupted("exit", str(_result_at(values).value)))


def _ended_by(error: BaseException) -> int:
    instance = _running.instance
    if isinstance(error, Interrupted):
        instance._end(error.reason, error.detail)
    else:
        instance._end("trap", f"the host's function failed: {type(error).__name__}")
    return artifacts.new_trap(b"ended")


def _check_epoch(_context: int, _data: int, delta: Any, _kind: int) -> int | None:
    try:
        delta[0] = 1
        _running.instance.interrupt()
    except BaseException as error:  # noqa: BLE001  # see the head of this module
        instance = _running.instance
        reason = (error.reason, error.detail) if isinstance(error, Interrupted) else ("trap", type(error).__name__)
        instance._end(*reason)
        return artifacts.new_error(b"ended")
    return None


_on_epoch = EpochFunction(_check_epoch)


# ----------------------------------------------------------------------------------------------------
# Snapshots


class Snapshot:
    """The memory of an interpreter that has loaded a library set and waits for its first program."""

    def __init__(self, cache: Cache, library_set: str) -> None:
        notes = json.loads(cache.snapshots[library_set].read_text("utf-8"))
        self.is_mapped: bool = notes["is_mapped"]
        self._runs = [
            (first * PAGE_BYTES, count * PAGE_BYTES, advice)
            for advice in (_MADV_POPULATE_READ, _MADV_POPULATE_WRITE)
            for first, count in notes["pages"][str(advice)]
        ]
        """Parts that every program reads, and those that it writes to."""
        self._file = open(cache.memory_of(library_set), "rb")  # noqa: SIM115  # for as long as this process lives
        self.size = os.fstat(self._file.fileno()).st_size
        self._data = b"" if self.is_mapped else self._file.read()

    def restore(self, instance: Instance) -> None:
        instance.grow_to(self.size)
        if not self.is_mapped:
            ctypes.memmove(instance.base, self._data, self.size)
            return
        base = instance.base
        _map_over(base, self.size, self._file.fileno())
        # Ahead of the program, which would fault them in one by one. An older kernel refuses, and that is all.
        if _madvise is not None:
            for start, size, advice in self._runs:
                _madvise(base + start, size, advice)


def _c_library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


_libc: Any = _c_library() if os.name == "posix" else None
_madvise: Any = _libc.madvise if sys.platform == "linux" else None


def _map_over(base: int, size: int, descriptor: int) -> None:
    """Put a private mapping of a file in the place of an instance's memory; the guard pages behind stay wasmtime's."""
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(base, size, rights, mmap.MAP_PRIVATE | _MAP_FIXED, descriptor, 0)
    if address != base:
        raise OSError(ctypes.get_errno(), "mmap")


def _no_answer(_wait: int, _frames: bytes) -> bytes:
    return b""


def _no_interrupt() -> None:
    pass


def make_snapshots(machine: Interpreter, report: Callable[[str], None]) -> None:
    for library_set, path in machine.cache.snapshots.items():
        if path.exists():
            continue
        report(f"loading the library set {library_set!r} for its snapshot")
        instance = Instance(machine, _no_answer, _no_interrupt)
        instance.files.limit(1 << 26, 1024)
        instance.turn(_PREPARE.format(library_set))
        if instance.ending is not None:
            raise artifacts.ArtifactError(f"the guest cannot be prepared: {instance.ending.detail}")
        memory = instance.view(0, instance.size)
        with artifacts.whole_file(machine.cache.memory_of(library_set)) as file:
            zeros = bytes(PAGE_BYTES)
            for start in range(0, len(memory), PAGE_BYTES):
                # Holes cost no disk.
                if memory[start : start + PAGE_BYTES] == zeros:
                    file.seek(PAGE_BYTES, os.SEEK_CUR)
                else:
                    file.write(memory[start : start + PAGE_BYTES])
            file.truncate(len(memory))
        memory.release()
        instance.close()
        notes = _try_snapshot(machine, library_set)
        with artifacts.whole_file(path) as file:
            file.write(json.dumps(notes).encode())


def _try_snapshot(machine: Interpreter, library_set: str) -> dict[str, Any]:
    """Whether this system maps it, and which pages a first program reads and writes to."""
    with open(machine.cache.memory_of(library_set), "rb") as file:
        original = file.read()
        is_mapped = os.name == "posix"
        for is_mapped in (True, False) if os.name == "posix" else (False,):
            instance = Instance(machine, _rehearsal(), _no_interrupt)
            instance.files.limit(1 << 26, 1024)
            instance.grow_to(len(original))
            try:
                if is_mapped:
                    _map_over(instance.base, len(original), file.fileno())
                else:
                    ctypes.memmove(instance.base, original, len(original))
                instance.turn(SERVE)
                failure = "" if instance.ending is None else instance.ending.detail
            except OSError as error:
                failure = str(error)
            read = _runs(_present_pages(instance.base, len(original) // PAGE_BYTES), _MOST_GAP_PAGES)
            memory = instance.view(0, len(original))
            changed = [
                memory[start : start + PAGE_BYTES] != original[start : start + PAGE_BYTES]
                for start in range(0, len(original), PAGE_BYTES)
            ]
            pages = {_MADV_POPULATE_READ: read, _MADV_POPULATE_WRITE: _runs(changed, 0)}
            memory.release()
            instance.close()
            if not failure:
                return {"is_mapped": is_mapped, "pages": pages}
    raise artifacts.ArtifactError(f"no program runs from the snapshot: {failure}")


def _rehearsal() -> Callable[[int, bytes], bytes]:
    """A host that sends a program which does nothing."""
    import marshal  # noqa: PLC0415  # once in the life of a cache

    from toolfold_guest.shared.wire_format import HEADER, PLAIN, PROGRAM, START  # noqa: PLC0415  # the same

    options = {"preset": (), "max_argument_bytes": 100, "seed": None, "files": [], "session": False}
    frames = []
    for message in ((PROGRAM, "pass", marshal.dumps([], PLAIN)), (START, options)):
        body = marshal.dumps(message, PLAIN)
        frames.append(HEADER.pack(len(body)) + body)
    waiting = [b"".join(frames)]

    def exchange(wait: int, _frames: bytes) -> bytes:
        if waiting:
            return waiting.pop()
        if wait:
            raise Interrupted("trap", "the program did not end")
        return b""

    return exchange


def _present_pages(base: int, count: int) -> list[bool]:
    """Which pages this process has in its tables; none where the system does not tell."""
    with contextlib.suppress(OSError), open("/proc/self/pagemap", "rb") as file:
        file.seek(base // PAGE_BYTES * _u64.size)
        return [bool(entry >> 63) for (entry,) in _u64.iter_unpack(file.read(count * _u64.size))]
    return []


def _runs(flags: list[bool], most_gap: int) -> list[tuple[int, int]]:
    """First and count of consecutive pages."""
    runs: list[tuple[int, int]] = []
    for page, flag in enumerate(flags):
        if flag:
            first = runs.pop()[0] if runs and page - sum(runs[-1]) <= most_gap else page
            runs.append((first, page - first + 1))
    return runs


with contextlib.suppress(AttributeError):
    # A thread that waits for the interpreter's lock waits at most so long for one that computes.
    sys.setswitchinterval(0.001)
