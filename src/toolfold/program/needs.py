"""Which libraries a program needs: one of the engine's own sets, or packages that were installed for programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from toolfold.models import InstalledSet, LibrarySet
from toolfold.program.reader import Reader
from toolfold.program.ready_names import DATA_MODULES, DATA_NAMES, SCIENCE_MODULES, SCIENCE_NAMES

_IMPORTED_BY: Final = {
    "read_parquet": "pyarrow", "to_parquet": "pyarrow", "read_feather": "pyarrow", "to_feather": "pyarrow",
    "read_orc": "pyarrow", "to_orc": "pyarrow", "read_html": "lxml", "read_xml": "lxml", "to_xml": "lxml",
    "read_excel": "openpyxl", "to_excel": "openpyxl", "ExcelFile": "openpyxl", "ExcelWriter": "openpyxl",
    "to_markdown": "tabulate", "read_hdf": "tables", "to_hdf": "tables", "to_latex": "jinja2", "style": "jinja2",
}  # fmt: skip
"""What pandas imports when one of its functions is used."""
_BY_NAME: Final = re.compile(r"\b(?:import_module|__import__|find_spec|exec|eval|compile|run_path|run_module)\b")
"""Programs with one of these may import a module of which there is only the name, in a text."""


def library_set(
    text: str, reader: Reader, preset_names: Sequence[str], installed: Sequence[InstalledSet]
) -> LibrarySet:
    """The set whose guest a program gets."""
    if installed:
        needed = set(_modules(text, reader, preset_names, installed))
        found = _most_useful(needed, installed) if needed else None
        if found is not None:
            return found.name
    if not SCIENCE_MODULES.isdisjoint(reader.names.modules) or not SCIENCE_NAMES.isdisjoint(preset_names):
        return "science"
    needs_data = not DATA_MODULES.isdisjoint(reader.names.modules) or not DATA_NAMES.isdisjoint(preset_names)
    return "data" if needs_data else "bare"


def _modules(
    text: str, reader: Reader, preset_names: Sequence[str], installed: Sequence[InstalledSet]
) -> Iterator[str]:
    yield from reader.names.modules
    yield from preset_names
    if "pandas" in reader.names.modules or "pd" in preset_names or "pandas" in preset_names:
        yield from (module for name, module in _IMPORTED_BY.items() if name in reader.names.attributes)
    if _BY_NAME.search(text):
        words = set(re.findall(r"\w+", text))
        yield from (module for one in installed for module in one.modules if module in words)


def _most_useful(needed: set[str], installed: Sequence[InstalledSet]) -> InstalledSet | None:
    """The one with most of what is needed; of equal ones the first."""
    best = max(installed, key=lambda one: len(needed & one.modules))
    return None if needed.isdisjoint(best.modules) else best
