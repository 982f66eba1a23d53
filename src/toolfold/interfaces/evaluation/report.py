"""Report of an evaluation: success with its confidence interval, cost, failures and a verdict, as text, JSON and HTML.

Pure: it reads results, and knows neither models nor tools.
"""

from __future__ import annotations

import html
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from toolfold.interfaces.evaluation.tasks import MODES, Mode, TaskResult
from toolfold.models import Json

_Z: Final = 1.96
"""Of a normal distribution, for 95 %."""
_CACHED_WEIGHT: Final = 0.1
_OUTPUT_WEIGHT: Final = 5.0
"""What cached input and output cost beside fresh input, as usual at providers; used where no price is known."""
_CALL_STEPS: Final = (1, 2, 4, 7, 11)
"""Tasks are grouped by how many calls they take: 1, 2 to 3, 4 to 6, 7 to 10, more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many, with the 95 % interval that Wilson gives."""

    passed: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        if not self.total:
            return 0.0, 1.0
        share, square = self.passed / self.total, _Z * _Z / self.total
        middle = share + square / 2
        half = _Z * math.sqrt((share * (1 - share) + square / 4) / self.total)
        return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.passed}/{self.total} ({low:.0%} to {high:.0%})"


def cost_of(result: TaskResult) -> float:
    """The price; else tokens, weighted as providers charge for them."""
    if result.price is not None:
        return result.price
    fresh = result.input_tokens - result.cached_tokens
    return fresh + _CACHED_WEIGHT * result.cached_tokens + _OUTPUT_WEIGHT * result.output_tokens


def row_of(results: Sequence[TaskResult]) -> dict[str, Json]:
    """Figures of some results: sums of failures, and means of all else."""

    def mean(value: Callable[[TaskResult], float]) -> float:
        return round(statistics.fmean(map(value, results)), 6) if results else 0.0

    share = Share(passed=sum(result.passed for result in results), total=len(results))
    low, high = share.interval
    has_prices = bool(results) and all(result.price is not None for result in results)
    return {
        "passed": share.passed, "runs": share.total, "success_low": round(low, 4), "success_high": round(high, 4),
        "requests": mean(lambda result: result.requests), "input_tokens": mean(lambda result: result.input_tokens),
        "cached_tokens": mean(lambda result: result.cached_tokens),
        "output_tokens": mean(lambda result: result.output_tokens), "seconds": mean(lambda result: result.seconds),
        "price": mean(lambda result: result.price or 0.0) if has_prices else None, "cost": mean(cost_of),
        "calls": mean(lambda result: result.calls), "direct_calls": sum(result.direct_calls for result in results),
        "programs": sum(result.programs for result in results),
        "failed_programs": sum(result.failed_programs for result in results),
        "calls_in_text": sum(result.calls_in_text for result in results),
        "replaced_tools": sum(result.replaced_tools for result in results),
        "failures": dict(Counter(result.failure for result in results if not result.passed)),
    }  # fmt: skip


def summary_of(results: Sequence[TaskResult]) -> dict[str, Json]:
    """All figures: by mode, by mode and kind, by mode and tool set, and what follows for each tool set."""
    return {
        "modes": {mode: row_of(own) for mode, own in _by_mode(results)},
        "kinds": {kind: {mode: row_of(own) for mode, own in _by_mode(group)} for kind, group in _by_kind(results)},
        "tool_sets": {
            name: {"verdict": verdict(group), **{mode: row_of(own) for mode, own in _by_mode(group)}}
            for name, group in _grouped(results, lambda result: result.tools).items()
        },
    }


def verdict(results: Sequence[TaskResult]) -> str:
    """From how many calls a task is better done by a program, as far as these runs say."""
    direct, programs = (_of_mode(results, mode) for mode in ("direct", "programs"))
    if not direct or not programs:
        return "no verdict: run the modes direct and programs"
    needed = _calls_needed(results)
    pays_from, tasks = 0, set[str]()
    for step, end in reversed(list(pairwise((*_CALL_STEPS, math.inf)))):
        names = {task for task, count in needed.items() if step <= count < end}
        groups = [[result for result in group if result.task in names] for group in (direct, programs)]
        if not all(groups):
            continue
        ratio, of_direct, of_programs = _compared(*groups)
        if ratio > 1 or of_programs.passed * of_direct.total < of_direct.passed * of_programs.total:
            break
        pays_from, tasks = int(step), tasks | names
    if not pays_from:
        return "programs do not pay: direct calls succeed more often, or cost less"
    groups = [[result for result in group if result.task in tasks] for group in (direct, programs)]
    ratio, of_direct, of_programs = _compared(*groups)
    where = "always" if pays_from == 1 else f"from {pays_from} calls"
    return (
        f"programs pay {where}: there they cost {ratio:.2f} times as much, "
        f"and {of_programs.passed}/{of_programs.total} succeed, direct {of_direct.passed}/{of_direct.total}"
    )


def _compared(direct: Sequence[TaskResult], programs: Sequence[TaskResult]) -> tuple[float, Share, Share]:
    shares = [Share(passed=sum(result.passed for result in group), total=len(group)) for group in (direct, programs)]
    costs = [statistics.fmean(map(cost_of, group)) for group in (direct, programs)]
    return costs[1] / costs[0] if costs[0] else math.inf, shares[0], shares[1]


def _calls_needed(results: Sequence[TaskResult]) -> dict[str, float]:
    """Calls of each task in runs that passed, those of the direct mode if there are any."""
    needed: dict[str, float] = {}
    for mode in ("both", "programs", "direct"):
        passed = [result for result in _of_mode(results, mode) if result.passed and result.calls]
        for task, group in _grouped(passed, lambda result: result.task).items():
            needed[task] = statistics.median(result.calls for result in group)
    return needed


def _grouped(results: Iterable[TaskResult], key: Callable[[TaskResult], str]) -> dict[str, list[TaskResult]]:
    groups: dict[str, list[TaskResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups


def _of_mode(results: Iterable[TaskResult], mode: str) -> list[TaskResult]:
    return [result for result in results if result.mode == mode]


def _by_mode(results: Sequence[TaskResult]) -> list[tuple[Mode, list[TaskResult]]]:
    return [(mode, own) for mode in MODES if (own := _of_mode(results, mode))]


def _by_kind(results: Sequence[TaskResult]) -> list[tuple[str, list[TaskResult]]]:
    return list(_grouped(results, lambda result: result.kind).items())


# ----------------------------------------------------------------------------------------------------
# Two evaluations of the same tasks, compared task by task.


def compare(first: Sequence[TaskResult], second: Sequence[TaskResult]) -> dict[str, Json]:
    """For each mode that both have: success, its difference with a 95 % interval, and the ratio of costs."""
    rows: dict[str, Json] = {}
    for mode in MODES:
        groups = [_grouped(_of_mode(results, mode), lambda result: result.task) for results in (first, second)]
        tasks = [task for task in groups[0] if task in groups[1]]
        if not tasks:
            continue
        pairs = [[statistics.fmean(result.passed for result in group[task]) for group in groups] for task in tasks]
        changes = [after - before for before, after in pairs]
        spread = _Z * statistics.stdev(changes) / math.sqrt(len(changes)) if len(changes) > 1 else 1.0
        means = [statistics.fmean(statistics.fmean(map(cost_of, group[task])) for task in tasks) for group in groups]
        change, better = statistics.fmean(changes), sum(change > 0 for change in changes)
        worse = sum(change < 0 for change in changes)
        rows[mode] = {
            "tasks": len(tasks), "success": [round(statistics.fmean(column), 4) for column in zip(*pairs, strict=True)],
            "change": round(change, 4), "change_low": round(max(-1.0, change - spread), 4),
            "change_high": round(min(1.0, change + spread), 4), "better": better, "worse": worse,
            "chance": round(_sign_test(better, worse), 4),
            "cost_ratio": round(means[1] / means[0], 4) if means[0] else None,
        }  # fmt: skip
    return rows


def _sign_test(better: int, worse: int) -> float:
    """How likely so one-sided a result is if nothing has changed."""
    count, least = better + worse, min(better, worse)
    return min(1.0, 2 * sum(math.comb(count, number) for number in range(least + 1)) / 2**count) if count else 1.0


def comparison_lines(rows: Mapping[str, Json], names: tuple[str, str]) -> list[str]:
    lines = [f"A = {names[0]}, B = {names[1]}"]
    for mode, row in rows.items():
        before, after = row["success"]
        cost = "" if row["cost_ratio"] is None else f", cost of B {row['cost_ratio']:.2f} times that of A"
        lines.append(
            f"{mode:<9} {row['tasks']} tasks, success {before:.0%} → {after:.0%} ({row['change']:+.0%}, 95 % interval "
            f"{row['change_low']:+.0%} to {row['change_high']:+.0%}; {row['better']} better, {row['worse']} worse, "
            f"by chance with {row['chance']:.2f}){cost}"
        )
    return lines if rows else [*lines, "no task is in both with the same mode"]


# ----------------------------------------------------------------------------------------------------
# The report as lines of a terminal and as a page without scripts or links to elsewhere.

_COLUMNS: Final = ("", "mode", "success", "requests", "tokens in", "cached", "out", "seconds", "price", "failures")


def table_rows(summary: Mapping[str, Json]) -> list[tuple[str, ...]]:
    """Rows of the table: each kind, then all kinds together."""
    groups = [*summary["kinds"].items(), ("all", summary["modes"])]
    return [_cells(name if first else "", mode, row) for name, modes in groups for first, (mode, row) in _marked(modes)]


def _marked(modes: Mapping[str, Json]) -> list[tuple[bool, tuple[str, Json]]]:
    return [(index == 0, item) for index, item in enumerate(modes.items())]


def _cells(name: str, mode: str, row: Mapping[str, Json]) -> tuple[str, ...]:
    failures = ", ".join(f"{count} {kind}" for kind, count in sorted(row["failures"].items()))
    price = "unknown" if row["price"] is None else f"${row['price']:.4f}"
    return (
        name, mode, str(Share(passed=row["passed"], total=row["runs"])), f"{row['requests']:.1f}",
        f"{row['input_tokens']:.0f}", f"{row['cached_tokens']:.0f}", f"{row['output_tokens']:.0f}",
        f"{row['seconds']:.1f}", price, failures,
    )  # fmt: skip


def report_lines(summary: Mapping[str, Json]) -> list[str]:
    rows = [_COLUMNS, *table_rows(summary)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    verdicts = [f"{name}: {figures['verdict']}" for name, figures in summary["tool_sets"].items()]
    return [*lines, *verdicts]


_STYLE: Final = """\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #d5d9de;padding:.3rem .6rem;text-align:left}
pre{background:#f4f5f7;padding:.6rem;overflow:auto;white-space:pre-wrap}.no{color:#a11}.yes{color:#176b2c}
@media(prefers-color-scheme:dark){body{background:#14171a;color:#e4e7ea}pre{background:#1f2429}.no{color:#f99}
.yes{color:#7fd695}th,td{border-color:#3a4148}}"""


def report_page(summary: Mapping[str, Json], results: Sequence[TaskResult], title: str) -> str:
    """One HTML file; every transcript is in it, folded."""
    text = html.escape
    head = "".join(f"<th scope=col>{text(name)}</th>" for name in _COLUMNS)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in table_rows(summary))
    verdicts = "".join(
        f"<li>{text(name)}: {text(figures['verdict'])}</li>" for name, figures in summary["tool_sets"].items()
    )
    ordered = sorted(results, key=lambda result: (result.passed, result.kind, result.task, result.mode, result.run))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{text(title)}</title><style>{_STYLE}</style>'
        f"<h1>{text(title)}</h1><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<h2>Verdicts</h2><ul>{verdicts}</ul><h2>Runs</h2>{''.join(map(_run_html, ordered))}</html>\n"
    )


def _run_html(result: TaskResult) -> str:
    text = html.escape
    word = '<span class="yes">passed</span>' if result.passed else f'<span class="no">{text(result.failure)}</span>'
    parts = [f"<p>{text(result.reason)}</p>"] if result.reason else []
    for message in result.transcript:
        calls = "\n".join(map(str, message.get("calls") or ()))
        label = f"{message['role']} {message.get('tool', '')}".strip()
        parts.append(
            f"<h4>{text(label)}</h4><pre>{text(chr(10).join(filter(None, [str(message['text']), calls])))}</pre>"
        )
    name = f"{result.task}, {result.mode}{f', run {result.run}' if result.run > 1 else ''}"
    return f"<details><summary>{text(name)}: {word}</summary>{''.join(parts)}</details>"


def as_json(summary: Mapping[str, Json], results: Sequence[TaskResult], settings: Mapping[str, Json]) -> str:
    """The report for other programs; transcripts stay in the results file."""
    rows = [
        {name: getattr(result, name) for name in TaskResult.__struct_fields__ if name != "transcript"}
        for result in results
    ]
    return json.dumps({"settings": settings, "summary": summary, "runs": rows}, ensure_ascii=False, indent=1)
