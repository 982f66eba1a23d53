"""Libraries loaded once, before any fork: every guest then shares their pages."""

import importlib
import sys

STDLIB = (
    "ast", "asyncio", "base64", "bisect", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime",
    "decimal", "enum", "fractions", "functools", "glob", "hashlib", "heapq", "html", "io", "itertools", "json",
    "linecache", "logging", "math", "operator", "pathlib", "pprint", "random", "re", "shutil", "statistics",
    "string", "struct", "tempfile", "textwrap", "threading", "time", "traceback", "typing", "unicodedata",
    "urllib.parse", "uuid", "zoneinfo", "encodings.idna", "concurrent.futures.thread",
)  # fmt: skip
DATA = (
    "numpy", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.font_manager", "matplotlib.backends.backend_agg",
    "scipy", "scipy.stats", "scipy.optimize", "sklearn", "sklearn.linear_model",
)  # fmt: skip


def preload(library_set: str) -> None:
    """Import what the set has; a library of `data` that is not installed is left out."""
    # There is no network here. Without OpenSSL a fork copies less and its pages stay unmapped.
    blocked = [name for name in ("ssl", "_ssl") if name not in sys.modules]
    if library_set == "bare":
        sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type]  # None is how imports are refused
    for name in STDLIB:
        importlib.import_module(name)
    if library_set == "bare":
        for name in blocked:
            del sys.modules[name]
    if library_set == "data":
        _preload_data()


def _preload_data() -> None:
    for name in DATA:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    if "pandas" in sys.modules:
        _exercise_pandas(sys.modules["pandas"])
    if "matplotlib.pyplot" in sys.modules:
        _exercise_matplotlib(sys.modules["matplotlib.pyplot"])


def _exercise_pandas(pandas: object) -> None:
    """First uses import and compile a good deal; do them before the fork."""
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
