"""The language table: shares by topic, and each failure with its reason, grouped by cause."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import record
from bench.languages.causes import cause_of
from bench.languages.corpus import Program
from bench.languages.measure import Found, Reasons
from bench.peers.client import versions
from bench.peers.roster import OURS, PEERS

ALL = "all"


def show(found: Found, corpus: Sequence[Program], console: Console) -> None:
    """Print everything."""
    table = Table("programs that run unchanged", *(PEERS[peer].title for peer in found.peers))
    for topic in (*_topics(corpus), ALL):
        shares = [_share(reasons, corpus, topic) for reasons in found.peers.values()]
        table.add_row(
            topic, *(f"{good} of {count}" for good, count in shares), end_section=topic == _topics(corpus)[-1]
        )
    shares = [_share(reasons, corpus, ALL) for reasons in found.peers.values()]
    table.add_row("share", *(f"{good / count:.0%}" for good, count in shares))
    console.print(table)
    console.print(
        "unchanged but for each peer's own spelling of a tool call (`await` or not, a module in front) and of a result"
    )
    for peer, words in found.missing.items():
        console.print(f"NOT RUN: {PEERS[peer].title}: {words}", highlight=False, markup=False)
    for peer, reasons in found.peers.items():
        _show_failures(PEERS[peer].title, reasons, console)


def _show_failures(title: str, reasons: Reasons, console: Console) -> None:
    by_cause = grouped(reasons)
    if not by_cause:
        return
    console.print(f"\n[bold]{title}[/bold]: {sum(map(len, by_cause.values()))} do not run", highlight=False)
    for cause, failures in sorted(by_cause.items(), key=lambda item: -len(item[1])):
        console.print(f"  {len(failures)} × {cause}", highlight=False, markup=False)
        for reason, names in _same(failures).items():
            console.print(f"      {reason[:110]}: {', '.join(names)}", highlight=False, markup=False)


def grouped(reasons: Reasons) -> dict[str, Reasons]:
    """The failures, by cause."""
    by_cause: dict[str, Reasons] = defaultdict(dict)
    for name, reason in reasons.items():
        if reason:
            by_cause[cause_of(reason)][name] = reason
    return dict(by_cause)


def _same(failures: Reasons) -> dict[str, list[str]]:
    names: dict[str, list[str]] = defaultdict(list)
    for name, reason in failures.items():
        names[reason].append(name)
    return names


def write(found: Found, corpus: Sequence[Program], path: Path) -> None:
    """Shares in percent as cases, and every failure in its own words."""
    cases = shares(found.peers, corpus)
    figure = cases[ALL]["runners"].get(OURS, {}).get("figure")
    record.write(
        path,
        title="Which Python each code mode speaks",
        command="make bench NAME=peers",
        cases=cases,
        targets=[record.target(ALL, figure, 100, "%", is_reached=figure == 100, sense="at least")],
        notes=notes(found),
        runners={peer: {"title": PEERS[peer].title, "versions": versions(peer)} for peer in found.peers},
        failures={peer: grouped(reasons) for peer, reasons in found.peers.items()},
    )


def shares(found: Mapping[str, Reasons], corpus: Sequence[Program]) -> dict[str, Any]:
    """A case for each topic and one for all, in percent."""
    cases = {}
    for topic in (*_topics(corpus), ALL):
        counts = {peer: _share(reasons, corpus, topic) for peer, reasons in found.items()}
        title = f"{topic}: {sum(topic in (ALL, program.topic) for program in corpus)} programs"
        cases[topic] = record.case(title, "%", {peer: 100 * good / count for peer, (good, count) in counts.items()})
    return cases


def notes(found: Found) -> list[str]:
    """A line for each cause of each peer's failures, with an instance."""
    missing = [f"not run: {PEERS[peer].title}: {words}" for peer, words in found.missing.items()]
    return missing + [line for peer, reasons in found.peers.items() for line in _notes(PEERS[peer].title, reasons)]


def _notes(title: str, reasons: Reasons) -> Iterable[str]:
    for cause, failures in sorted(grouped(reasons).items(), key=lambda item: -len(item[1])):
        name, reason = next(iter(failures.items()))
        yield f"{title}, {len(failures)} × {cause}; for instance {name}: {reason[:110]}"


def _topics(corpus: Iterable[Program]) -> list[str]:
    return sorted({program.topic for program in corpus})


def _share(reasons: Reasons, corpus: Iterable[Program], topic: str) -> tuple[int, int]:
    names = [program.name for program in corpus if topic in (ALL, program.topic)]
    return sum(not reasons[name] for name in names), len(names)
