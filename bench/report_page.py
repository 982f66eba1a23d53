"""What the benchmarks last measured, in the docs: `python -m bench.report_page`.

It reads `build/bench/*.json` and replaces, in `docs/benchmarks.md` and `README.md`, what stands between
`<!-- bench-report: NAME -->` and `<!-- /bench-report -->`; all other lines are written by people. Charts go
to `docs/figures/`. A benchmark that has not run is said to be missing.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.record import FOLDER
from bench.report_figures import bars, ratios
from bench.report_savings import PARALLEL, PROGRAM, figure, savings, words
from bench.report_tables import OURS, bullets, number, plain, table

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/benchmarks.md")
COMMANDS = {
    "engines": "make bench",
    "ledger": "make bench",
    "peers": "make bench NAME=peers",
    "languages": "make bench NAME=peers",
    "codemode": "make bench NAME=codemode",
    "savings": "make bench NAME=savings",
    "catalog": "make bench NAME=catalog",
    "http": "make bench NAME=http",
    "bridge": "make bench NAME=bridge",
    "callback": "make bench NAME=callback",
    "search": "make bench NAME=search",
    "start": "make bench NAME=start",
}
LARGE = "50 replies of 20 KB, tools of 10 servers"
SMALL = "one small call"

_END = "<!-- /bench-report -->"
_BLOCK = re.compile(rf"(<!-- bench-report: ([a-z-]+) -->\n).*?({_END})", re.DOTALL)

Documents = Mapping[str, Mapping[str, Any]]


def main() -> int:
    """Exit status 0 if all pages were written, whatever was missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.report_page", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="folder", type=Path, default=FOLDER, metavar="DIR", help="where the JSON is")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="where README.md and docs/ are")
    options = parser.parse_args()
    documents = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(options.folder.glob("*.json"))}
    try:
        write(options.root, documents)
    except ValueError as error:
        print(f"bench-report: {error}", file=sys.stderr)
        return 1
    for name, command in COMMANDS.items():
        if name not in documents:
            print(f"missing: {name}; run '{command}'")
    print(f"written: {', '.join(PAGES)}")
    return 0


def write(root: Path, documents: Documents) -> None:
    """The charts, then the pages.

    Raises:
        ValueError: A page has a block that nothing is written for.
    """
    figures = root / "docs" / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    charts = _charts(documents)
    for name, text in charts.items():
        (figures / f"{name}.svg").write_text(text, "utf-8")
    for name in PAGES:
        page = root / name
        page.write_text(refreshed(page.read_text("utf-8"), documents, set(charts)), "utf-8")


def refreshed(text: str, documents: Documents, charts: set[str]) -> str:
    """The page with its blocks written anew."""
    if text.count("<!-- bench-report: ") != text.count(_END):
        raise ValueError(f"a block has no end: every '<!-- bench-report: NAME -->' needs a {_END!r}")

    def block(found: re.Match[str]) -> str:
        name = found[2]
        if name == "machine":
            body = _machine(documents)
        elif name == "figures":
            body = _readme(documents)
        elif name in COMMANDS:
            body = _benchmark(name, documents, charts)
        else:
            known = ", ".join(["machine", "figures", *COMMANDS])
            raise ValueError(f"no benchmark {name!r} for a block; use one of {known}")
        return f"{found[1]}{body}\n{found[3]}"

    return _BLOCK.sub(block, text)


def _benchmark(name: str, documents: Documents, charts: set[str]) -> str:
    if name not in documents:
        return f"Not measured yet: run `{COMMANDS[name]}`, then `make bench NAME=report`."
    document = documents[name]
    parts = [f"![{_CHARTS[one][1]}](figures/{one}.svg)" for one in _CHARTS if one in charts and _CHARTS[one][0] == name]
    parts.append(savings(document) if name == "savings" else plain(document))
    return "\n\n".join(parts)


def _machine(documents: Documents) -> str:
    rows = []
    for name, command in COMMANDS.items():
        document = documents.get(name)
        if document is None:
            rows.append([name, f"`{command}`", "not measured yet", "", ""])
            continue
        machine = document["machine"]
        place = f"{machine['cores']} cores of {machine['processor']}, Linux {machine['kernel']}"
        rows.append([name, f"`{command}`", document["date"][:10], place, f"Python {machine['python']}"])
    return table(["", "command", "date", "machine", ""], rows)


def _readme(documents: Documents) -> str:
    """At most four figures, each with its command; what is lost stands beside what is saved."""
    lines = [line for line in (_speed(documents), _peer(documents), *_saved(documents)) if line]
    if not lines:
        return "Not measured yet: run `make bench` and `make bench NAME=savings`, then `make bench NAME=report`."
    return (
        bullets(lines)
        + "\n\nAll figures, including those where peers are ahead: [docs/benchmarks.md](docs/benchmarks.md)."
    )


def _speed(documents: Documents) -> str:
    found = _cell(documents, "engines", "empty", OURS)
    if not found:
        return ""
    return f"**{number(found)} ms** to run an empty program in the full jail, from text to outcome: `make bench`"


def _peer(documents: Documents) -> str:
    """From the benchmark that puts both under one agent: any other ratio compares unlike things."""
    ours, peer = (_cell(documents, "codemode", "call", name) for name in (OURS, "harness"))
    if not ours or not peer:
        return ""
    return (
        f"**{number(ours / peer)} ×** the time of one tool call in pydantic-ai-harness CodeMode, under the same agent: "
        "`make bench NAME=codemode`"
    )


def _saved(documents: Documents) -> list[str]:
    document = documents.get("savings")
    if document is None:
        return []
    said = {
        LARGE: ("Saved", "parallel direct calls where 50 replies have 20 KB each"),
        SMALL: ("Lost", "a direct call for one small reply"),
    }
    lines = []
    for name, (word, case) in said.items():
        program, direct = (figure(document, name, "input tokens", way) for way in (PROGRAM, PARALLEL))
        lines.append(
            f"**{word}: {number(program / direct)} ×** the input tokens of {case} "
            f"({number(program)} instead of {number(direct)}): `make bench NAME=savings`"
        )
    return lines


def _cell(documents: Documents, name: str, case: str, runner: str) -> float | None:
    return documents.get(name, {}).get("cases", {}).get(case, {}).get("runners", {}).get(runner, {}).get("figure")


# --- charts ---------------------------------------------------------------------------------

_CHARTS: dict[str, tuple[str, str, str]] = {
    "engines-empty": ("engines", "An empty program", "empty"),
    "engines-call": ("engines", "One of 100 sequential tool calls", "sequential"),
    "peers-empty": ("peers", "An empty program beside peers", "empty"),
    "peers-call": ("peers", "One of 100 sequential tool calls beside peers", "sequential"),
    "savings": ("savings", "Price of programs to that of parallel direct calls", "price"),
}
"""By file: the benchmark, the title, and the case or measure."""


def _charts(documents: Documents) -> dict[str, str]:
    draw: Callable[[Mapping[str, Any], str, str], str]
    charts = {}
    for name, (benchmark, title, case) in _CHARTS.items():
        draw = _ratio_chart if benchmark == "savings" else _bar_chart
        if benchmark in documents and (benchmark == "savings" or case in documents[benchmark]["cases"]):
            charts[name] = draw(documents[benchmark], title, case)
    return charts


def _bar_chart(document: Mapping[str, Any], title: str, name: str) -> str:
    case = document["cases"][name]
    titles = document.get("runners", {})
    rows = [
        (titles.get(runner, {}).get("title", runner), cell["figure"], f"{number(cell['figure'])} {case['unit']}")
        for runner, cell in case["runners"].items()
        if "error" not in cell
    ]
    return bars(title, sorted(rows, key=lambda row: row[1]), ours=titles.get(OURS, {}).get("title", OURS))


def _ratio_chart(document: Mapping[str, Any], title: str, measure: str) -> str:
    names = [*document["groups"], *document["examples"]]
    rows = [
        (words(name), figure(document, name, measure, PROGRAM) / figure(document, name, measure, PARALLEL))
        for name in names
    ]
    return ratios(title, rows)


if __name__ == "__main__":
    sys.exit(main())
