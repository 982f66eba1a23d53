"""The figures of `make bench NAME=savings` as Markdown: sums, losses, examples. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report_tables import bullets, clean, number, table

PARALLEL = "direct, parallel"
PROGRAM = "program, prints every reply"
MEASURES = (
    "requests", "input tokens", "input tokens, cached at a tenth", "output tokens", "price", "time of the model",
    "largest context",
)  # fmt: skip


def savings(document: Mapping[str, Any]) -> str:
    """All of it, losses included."""
    parts = [bullets(clean(note) for note in document["notes"])]
    parts += [f"**{words(group)}**\n\n{_sums(document, group)}" for group in document["groups"]]
    parts.append(f"**Tasks in which a program loses**, of {document['tasks']}\n\n{_losses(document)}")
    parts.append(f"**Single turns, by the number of calls in them**\n\n{_turns(document)}")
    parts.append(f"**Examples**\n\n{_examples(document)}")
    if "interfaces" in document:
        parts.append(
            f"**What each interface sends before a task**, the mean over all\n\n{_interfaces(document['interfaces'])}"
        )
        parts.append(f"**Targets**\n\n{_targets(document['targets'])}")
    return "\n\n".join(parts)


def figure(document: Mapping[str, Any], group: str, measure: str, way: str) -> float:
    return document["cases"][f"{group}: {measure}"]["runners"][way]["figure"]


def words(group: str) -> str:
    return group.replace("_", " ").replace("multi turn", "BFCL multi-turn,")


def _sums(document: Mapping[str, Any], group: str) -> str:
    ways = list(document["cases"][f"{group}: requests"]["runners"])
    rows = []
    for measure in MEASURES:
        base = figure(document, group, measure, PARALLEL)
        figures = (figure(document, group, measure, way) for way in ways)
        unit = document["cases"][f"{group}: {measure}"]["unit"]
        name = measure if not unit or unit in measure else f"{measure}, {unit}"
        rows.append([name, *(f"{number(one)}<br>{one / base:.2f} ×" for one in figures)])
    return table(["", *ways], rows)


def _losses(document: Mapping[str, Any]) -> str:
    pairs = list(next(iter(document["losses"].values())))
    rows = [[measure, *(str(lost[pair]) for pair in pairs)] for measure, lost in document["losses"].items()]
    return table(["", *(pair.replace(" / ", "<br>to ") for pair in pairs)], rows)


def _interfaces(means: Mapping[str, float]) -> str:
    base = next(iter(means.values()))
    rows = [[name, number(tokens), f"{tokens / base:.2f} ×"] for name, tokens in means.items()]
    return table(["", "tokens", "to the JSON definitions"], rows)


def _targets(judged: Sequence[tuple[str, float, float, bool]]) -> str:
    rows = [
        [name, f"{figure:.3g}", f"{limit:g}", "met" if is_met else "MISSED"] for name, figure, limit, is_met in judged
    ]
    return table(["", "figure", "at most", ""], rows)


def _turns(document: Mapping[str, Any]) -> str:
    measures = [name for name in next(iter(document["turns"].values())) if name != "turns"]
    rows = [
        [bucket, str(row["turns"]), *(f"{row[name]['lost']} lost, {row[name]['ratio']:.2f} ×" for name in measures)]
        for bucket, row in document["turns"].items()
    ]
    return table(["", "turns", *measures], rows)


def _examples(document: Mapping[str, Any]) -> str:
    rows = []
    for name in document["examples"]:
        price = _ratio(document, name, "price")
        rows.append(
            [
                name,
                str(document["counts"][name]),
                *(_pair(document, name, measure) for measure in ("requests", "input tokens", "output tokens")),
                f"{number(price)} ×",
                f"{_ratio(document, name, 'time of the model'):.2f} ×",
                "saves" if price < 1 else "**loses**",
            ]
        )
    head = ["direct, parallel → program", "calls", "requests", "input tokens", "output tokens", "price", "time", ""]
    return table(head, rows)


def _pair(document: Mapping[str, Any], name: str, measure: str) -> str:
    direct, program = (figure(document, name, measure, way) for way in (PARALLEL, PROGRAM))
    return f"{number(direct)} → {number(program)}"


def _ratio(document: Mapping[str, Any], name: str, measure: str) -> float:
    return figure(document, name, measure, PROGRAM) / figure(document, name, measure, PARALLEL)
