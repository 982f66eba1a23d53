"""Library preloading before any fork: every guest then shares the loaded pages."""

import contextlib
import importlib
import sys
from collections.abc import Iterable, Sequence

from toolfold_guest.shared.reserved_names import DATA_LIBRARIES, SCIENCE_LIBRARIES

STDLIB = (
    "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "fractions", "glob",
    "hashlib", "heapq", "html", "logging", "pathlib", "pprint", "random", "shutil", "statistics", "string", "tempfile",
    "textwrap", "unicodedata", "urllib.parse", "uuid", "zoneinfo", "encodings.idna", "typing", "enum", "contextlib",
    "functools", "itertools", "math", "operator", "re", "struct", "time", "concurrent.futures.thread", "threading",
    "io", "linecache", "traceback", "ast", "json", "asyncio",
)  # fmt: skip
"""What every guest uses comes last, next to our own modules: then a fork copies fewer pages."""


def preload_stdlib() -> None:
    # There is no network here. Without OpenSSL a fork copies less; a program can still import it.
    blocked = [name for name in ("ssl", "_ssl") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type]  # None is how imports are refused
    for name in STDLIB:
        importlib.import_module(name)
    for name in blocked:
        del sys.modules[name]


def preload_modules(names: Iterable[str]) -> None:
    """Import these alone; one that is not installed is left to the program."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def preload_data(*, with_science: bool = False) -> None:
    """Import the libraries of the set `data`, or `science`; one that is not installed is left out."""
    for name in (*DATA_LIBRARIES, *SCIENCE_LIBRARIES) if with_science else DATA_LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    exercise()


def exercise() -> None:
    """Use what is loaded once: first uses import and compile a good deal."""
    if "pandas" in sys.modules:
        _exercise_pandas(sys.modules["pandas"])
    if "matplotlib.pyplot" in sys.modules:
        _exercise_matplotlib(sys.modules["matplotlib.pyplot"])


def _exercise_pandas(pandas: object) -> None:
    frame = pandas.DataFrame({"a": [1, 2, 1], "b": [1.0, 2.0, 3.0], "c": list("xyx")})  # type: ignore[attr-defined]
    frame.groupby("a")["b"].sum()
    frame.groupby("c").agg({"b": "mean"})
    frame.merge(frame, on="a").sort_values("b_x").to_dict("records")
    frame.describe()
    frame.to_csv(index=False)
    repr(frame)
    repr(frame["b"].rolling(2).mean())


def _exercise_matplotlib(pyplot: object) -> None:
    import io  # noqa: PLC0415  # only here, and before the fork

    figure, axes = pyplot.subplots()  # type: ignore[attr-defined]
    axes.plot([1, 2], [1, 2], label="a")
    axes.legend()
    axes.set_title("t")
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close(figure)  # type: ignore[attr-defined]
    # Cached fonts hold their files open, and no descriptor outlives the fork.
    sys.modules["matplotlib.font_manager"]._get_font.cache_clear()


# ----------------------------------------------------------------------------------------------------
# Packages that the operator installed for programs: on the path of the programs that import them, and of no others.

_paths: dict[str, str] = {}
_place = [0]
"""After the standard library, which nothing may hide, and before the other packages."""


def prepare(paths: dict[str, str], own: Sequence[str], place: int) -> None:
    """In the zygote, where nothing is imported from any of them unless a set is its `own`: path and modules."""
    _paths.update(paths)
    _place[0] = place
    if own:
        path, *modules = own
        _add(path)
        for name in modules:
            _load(name)
        exercise()


def use(name: str) -> None:
    """Have a program find the packages of a set; one that was installed anew since the program began has its place."""
    path = _paths.get(name)
    # A paused program may go on after the operator has installed the set anew.
    if path is None:
        kind = name.rpartition("-")[0]
        path = next((path for other, path in _paths.items() if other.rpartition("-")[0] == kind), None)
    if path is not None:
        _add(path)


def _load(name: str) -> None:
    try:
        importlib.import_module(name)
    # A package may raise anything; the operator has to know which one it was.
    except BaseException as error:  # noqa: BLE001
        from toolfold_guest.jail import kernel_calls  # noqa: PLC0415  # it cannot be loaded on WebAssembly

        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise kernel_calls.JailError(f"{name!r} in libraries.preload cannot be imported ({reason})") from None


def _add(path: str) -> None:
    # Never by `site`: it would run what `.pth` files say, and `sitecustomize`.
    if path not in sys.path:
        sys.path.insert(_place[0], path)
