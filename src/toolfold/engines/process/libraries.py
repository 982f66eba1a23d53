"""Which of the installed packages programs may see: the libraries of the sets, and what those need.

Read from the packages' own records, without `importlib.metadata`: that takes as long to import as a jail to build.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

ROOTS: Final = (
    "numpy", "pandas", "matplotlib", "scipy", "scikit-learn", "seaborn", "statsmodels", "plotly", "sympy", "mpmath",
    "openpyxl", "xlsxwriter", "xlrd", "tabulate", "pytz",
)  # fmt: skip
"""Distributions that programs may import where they are installed; the second row is what pandas imports if asked."""

_SEPARATORS: Final = re.compile(r"[-_.]+")
_REQUIRES: Final = re.compile(r"^Requires-Dist:\s*([A-Za-z0-9._-]+)([^\n]*)$", re.MULTILINE)
_OF_A_DISTRIBUTION: Final = (".dist-info", ".egg-info", ".libs", ".data")


@lru_cache(maxsize=4)
def library_entries(sites: tuple[str, ...]) -> Mapping[str, str]:
    """Files and folders by their name below a folder of packages: of the libraries, and of nothing else."""
    entries: dict[str, str] = {}
    for record in _visible(sites).values():
        for entry in _entries_of(record):
            if (record.parent / entry).exists():
                entries.setdefault(entry, str(record.parent / entry))
    return entries


def visible_versions(sites: Sequence[str]) -> Mapping[str, str]:
    """The distributions that programs see, by their normal names."""
    return {name: record.stem.partition("-")[2] for name, record in _visible(sites).items()}


def _visible(sites: Sequence[str]) -> dict[str, Path]:
    """The libraries and what they need."""
    records = _records(sites)
    waiting, found = list(ROOTS), dict[str, Path]()
    while waiting:
        name = _normal(waiting.pop())
        record = records.get(name)
        if record is None or name in found:
            continue
        found[name] = record
        waiting += _needed_by(record)
    return found


def _records(sites: Sequence[str]) -> dict[str, Path]:
    """The folder with the metadata of each distribution; of one that is installed twice the first, as in imports."""
    found: dict[str, Path] = {}
    for site in sites:
        for name in sorted(os.listdir(site)):
            if name.endswith((".dist-info", ".egg-info")):
                found.setdefault(_normal(name.split("-", 1)[0].removesuffix(".egg-info")), Path(site, name))
    return found


def _needed_by(record: Path) -> Iterator[str]:
    head = _read(record / "METADATA").partition("\n\n")[0]
    for name, marker in _REQUIRES.findall(head):
        if "extra" not in marker:
            yield name
    # Of the older kind; a section is an extra.
    for line in _read(record / "requires.txt").splitlines():
        if line.startswith("["):
            break
        yield from re.findall(r"^[A-Za-z0-9._-]+", line)


def _entries_of(record: Path) -> set[str]:
    """What a distribution has in the folder of packages: whole folders, unless others may have a part in them."""
    paths = {line.partition(",")[0] for line in _read(record / "RECORD").splitlines()}
    paths = {path for path in paths if path and not path.startswith(("/", "..", "__pycache__/"))}
    if not paths:
        modules = _read(record / "top_level.txt").split() or [_normal(record.name.split("-", 1)[0]).replace("-", "_")]
        paths = {path for module in modules for path in (f"{module}/__init__.py", f"{module}.py")}
    entries = {record.name}
    for path in paths:
        first, _, rest = path.partition("/")
        is_shared = rest and not first.endswith(_OF_A_DISTRIBUTION) and f"{first}/__init__.py" not in paths
        entries.add(f"{first}/{rest.partition('/')[0]}" if is_shared else first)
    return entries


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
