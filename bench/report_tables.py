"""One benchmark's JSON as Markdown: tables, targets, notes. Pure; the shape is in `record.py`."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

OURS = "toolfold"
RATED = ("ms", "µs", "s", "/s", "MB")
"""Units of which a ratio to ours says something."""
_PATH = re.compile(r"(?:/[\w.@+-]+){2,}/?")


def plain(document: Document) -> str:
    """The tables of a benchmark that needs no words of its own."""
    parts = [_single(document) if len(_runners(document)) == 1 else _table(document)]
    if len(_runners(document)) > 1:
        parts += [_walls(document), _targets(document)]
    parts.append(_notes(document))
    return "\n\n".join(part for part in parts if part)


def _single(document: Document) -> str:
    wanted = {one["case"]: one for one in document.get("targets", ())}
    rows = []
    for name, case in document["cases"].items():
        (cell,) = case["runners"].values()
        target = f"{_wanted(wanted[name])}: {_word(wanted[name])}" if name in wanted else ""
        rows.append([case["title"], _shown(cell, case["unit"]), target])
    return table(["", "figure", "target"], rows)


def _table(document: Document) -> str:
    runners = _runners(document)
    titles = [_title(document, name) for name in runners]
    notes: dict[str, int] = {}
    rows = []
    for case in document["cases"].values():
        cells = [_cell(case, name, title, notes) for name, title in zip(runners, titles, strict=True)]
        rows.append([case["title"], *cells])
    text = table(["", *titles], rows)
    if notes:
        text += "\n\n" + "\n".join(f"({mark}) {note}  " for note, mark in notes.items()).rstrip()
    return text


def _cell(case: Mapping[str, Any], name: str, title: str, notes: dict[str, int]) -> str:
    cell = case["runners"].get(name)
    if cell is None:
        return "–"
    if "error" in cell:
        mark = notes.setdefault(f"{title}: {clean(cell['error'])}", len(notes) + 1)
        return f"cannot ({mark})"
    ours = case["runners"].get(OURS, {}).get("figure")
    has_ratio = ours and name != OURS and case["unit"] in RATED
    ratio = f"<br>{number(cell['figure'] / ours)} ×" if has_ratio else ""
    shown = _shown(cell, case["unit"])
    return f"**{shown}**" if name == OURS else f"{shown}{ratio}"


def _walls(document: Document) -> str:
    lines = [
        f"{' '.join([one['title'], *list(one.get('versions', {}).values())[:1]])}: {one['isolation']}"
        for one in document.get("runners", {}).values()
        if "isolation" in one
    ]
    return f"What stands between a program and the host:\n\n{bullets(lines)}" if lines else ""


def _targets(document: Document) -> str:
    cases = document["cases"]
    lines = []
    for one in document.get("targets", ()):
        figure = "no figure" if one["figure"] is None else f"{number(one['figure'])} {one['unit']}".strip()
        than = f" {_title(document, one['than'])}" if one.get("than") else ""
        lines.append(f"{cases[one['case']]['title']}: {figure}{than} ({_wanted(one)}): {_word(one)}")
    return f"Targets:\n\n{bullets(lines)}" if lines else ""


def _notes(document: Document) -> str:
    lines = [clean(note) for note in document.get("notes", ())]
    return f"Notes:\n\n{bullets(lines)}" if lines else ""


def _wanted(target: Mapping[str, Any]) -> str:
    return f"{target['sense']} {target['limit']:g} {target['unit']}".strip()


def _word(target: Mapping[str, Any]) -> str:
    return {True: "reached", False: "**missed**"}.get(target["is_reached"], "no figure")


def _shown(cell: Mapping[str, Any], unit: str) -> str:
    if "error" in cell:
        return clean(cell["error"])
    spread = f" ± {number(cell['spread'])}" if cell.get("spread") is not None else ""
    return f"{number(cell['figure'])} {unit}".strip() + spread


def _runners(document: Document) -> list[str]:
    names: dict[str, None] = {}
    for case in document["cases"].values():
        names.update(dict.fromkeys(case["runners"]))
    return list(names)


def _title(document: Document, runner: str) -> str:
    return document.get("runners", {}).get(runner, {}).get("title", runner)


# --- Markdown -------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells may hold anything but line ends."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def bullets(lines: Iterable[str]) -> str:
    wrap = textwrap.TextWrapper(
        120, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrap.fill(line) for line in lines)


def number(value: float) -> str:
    """Three digits that count."""
    if value == int(value) and abs(value) < 100:
        return f"{value:.0f}"
    size = abs(value)
    return (
        f"{value:,.0f}"
        if size >= 100
        else f"{value:.1f}"
        if size >= 10
        else f"{value:.2f}"
        if size >= 0.1
        else f"{value:.2g}"
    )


def clean(text: str) -> str:
    """One line that Markdown shows as it is, without paths of the machine that it was measured on."""
    line = _PATH.sub(lambda found: found[0].rstrip("/").rpartition("/")[2], " ".join(text.split()))
    return line.replace("<", "&lt;")
