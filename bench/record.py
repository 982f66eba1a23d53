"""The JSON that every benchmark writes, in one shape; `bench.report_page` reads it.

    {"title", "command", "date", "machine", "notes": [text],
     "cases": {name: {"title", "unit", "runners": {name: {"figure", "spread", "passes"} or {"error"}}}},
     "targets": [{"case", "runner", "sense", "limit", "unit", "than", "figure", "is_reached"}]}

`spread` may be null and `passes` empty. No host names and no paths are in it.
"""

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "build" / "bench"
PACKAGES = ("toolfold", "pydantic-monty", "pandas", "numpy")


def write(
    path: Path, *, title: str, command: str, cases: Mapping[str, Any], targets: Iterable[Any] = (),
    notes: Sequence[str] = (), **more: Any,
) -> None:  # fmt: skip
    """One benchmark's figures, with the machine that they were taken on and the date."""
    document = {
        "title": title,
        "command": command,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(),
        "notes": list(notes),
        "cases": dict(cases),
        "targets": list(targets),
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


def case(title: str, unit: str, figures: Mapping[str, float | None]) -> dict[str, Any]:
    """A case of which there is one figure for each runner."""
    return {"title": title, "unit": unit, "runners": {name: cell(figure) for name, figure in figures.items()}}


def cell(figure: float | None, samples: Sequence[float] = ()) -> dict[str, Any]:
    """One figure, and the samples behind it."""
    if figure is None:
        return {"error": "not measured"}
    return {"figure": figure, "spread": None, "passes": [list(samples)] if samples else []}


def target(
    case: str, figure: float | None, limit: float, unit: str, *, is_reached: bool | None, runner: str = "toolfold",
    sense: str = "at most", than: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What a figure must reach, and whether it does; with `than` it is a ratio to that runner's."""
    wanted = {"case": case, "runner": runner, "sense": sense, "limit": limit, "unit": unit, "than": than}
    return {**wanted, "figure": figure, "is_reached": is_reached}


def machine() -> dict[str, Any]:
    """What a figure depends on, and nothing that names the machine."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
