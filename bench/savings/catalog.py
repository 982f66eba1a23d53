"""Many tools in the real Claude Code: `python -m bench.savings.catalog`, with the mock model's log as evidence.

The same task over the 104 tools of eight real MCP servers, in three ways: the servers in the CLI itself with their
tools deferred, the same with every tool loaded, and all of them behind toolfold. The model only plays a script, so no
key and no network is needed. Counted is what the CLI sends: every request's system prompt, tools and messages.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import record
from bench.savings import bfcl
from bench.savings.tokens import Count, reply_text, tokenizer
from tests.clients.claude_code.cli import ROOT, SEARCH, TOOL, Case, Seen, run
from tests.servers.cases import CASES
from tests.servers.install import CannotInstall, install_npm, install_python
from toolfold.interfaces.mcp.offered_tools import description_limit

PACKAGES = ROOT / "build" / "clients" / "claude-code"
VERSION = "2.1.325"
MOST_TOKENS = 700
"""Of the first request through toolfold, over one without any MCP server."""
NONE, DEFERRED, LOADED, THROUGH = "no MCP", "direct, deferred", "direct, loaded", "through toolfold"

FILES, MEMORY, SUMS = "server-filesystem", "server-memory", "server-everything"
PEOPLE = [{"name": "ada", "entityType": "person", "observations": ["wrote programs"]}]
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    (FILES, "read_text_file", {"path": "WORK/ada.txt"}),
    (FILES, "read_text_file", {"path": "WORK/grace.txt"}),
    (MEMORY, "create_entities", {"entities": PEOPLE}),
    (SUMS, "get-sum", {"a": 19, "b": 23}),
]
PROGRAM = """\
files = await asyncio.gather(*[mcp__server_filesystem__read_text_file(path=f"WORK/{n}.txt") for n in ("ada", "grace")])
people = [{"name": "ada", "entityType": "person", "observations": ["wrote programs"]}]
made = await mcp__server_memory__create_entities(entities=people)
print([one["content"] for one in files], len(made["entities"]), await mcp__server_everything__get_sum(a=19, b=23))
"""


@dataclass(frozen=True, slots=True)
class Read:
    """What the CLI sent in one way."""

    requests: int
    first: int
    """Tokens of the first request."""
    all: int
    """Of all requests together."""


def main() -> int:
    """Exit status 1 if a target was missed, or a way did not do the task."""
    options = _options()
    try:
        install_npm()
        install_python()
        bfcl.fetch()
    except CannotInstall as error:
        print(f"NOT RUN: {error}")
        return 0
    if not (PACKAGES / "node_modules" / ".bin" / "claude").exists():
        print("NOT RUN: Claude Code is not there; run make test NAME=claude first, which fetches it")
        return 0
    count, counting = tokenizer(bfcl.HOME)
    seen = {name: run(case, PACKAGES) for name, case in _cases().items()}
    _check_answers(seen)
    read = {name: _read(one, count) for name, one in seen.items()}
    console = Console(width=max(Console().width, 110), highlight=False)
    _show(console, read)
    judged = _judged(read, seen[THROUGH])
    for text, is_met in judged:
        console.print(f"{'met' if is_met else 'MISSED'}: {text}", soft_wrap=True)
    console.print(f"tokens: {counting}; Claude Code {VERSION}")
    figures = (("first request", "tokens", "first"), ("all requests", "tokens", "all"), ("requests", "", "requests"))
    cases = {
        name: record.case(name, unit, {way: getattr(one, field) for way, one in read.items()})
        for name, unit, field in figures
    }
    record.write(
        options.json, title="Many tools in Claude Code", command="make bench NAME=catalog",
        notes=[f"{'met' if is_met else 'MISSED'}: {text}" for text, is_met in judged], cases=cases,
    )  # fmt: skip
    return 0 if all(is_met for _, is_met in judged) else 1


def _cases() -> dict[str, Case]:
    uses: list[dict[str, Any]] = [{"name": f"mcp__{server}__{tool}", "input": given} for server, tool, given in CALLS]
    wanted = ",".join(dict.fromkeys(use["name"] for use in uses))
    found = {"name": "ToolSearch", "input": {"query": f"select:{wanted}", "max_results": 5}}
    long = (("MCP_TIMEOUT", "60000"),)
    loaded = (*long, ("ENABLE_TOOL_SEARCH", "false"))
    return {
        NONE: Case(NONE, [], str, direct=lambda _: {}),
        DEFERRED: Case(DEFERRED, [found, uses], str, long, direct=_servers),
        LOADED: Case(LOADED, [uses], str, loaded, direct=_servers),
        # Once before: a server that was never met may take longer to start than the first list waits for it.
        THROUGH: Case(
            THROUGH, [PROGRAM], str, long,
            config=lambda work, _: {"servers": [{"name": name, **one} for name, one in _servers(work).items()]},
            before=("print(len(await search_tools('anything')))",),
        ),
    }  # fmt: skip


def _servers(work: Path) -> dict[str, Any]:
    repository = work / "repo"
    if not repository.exists():
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
    servers = [case.server(str(work)) for case in CASES]
    return {one.name: {"command": one.command, "args": list(one.args), "env": dict(one.env)} for one in servers}


def _check_answers(seen: Mapping[str, Seen]) -> None:
    for name, one in seen.items():
        answers = json.dumps(one.shown)
        wrong = [text for text in ("wrote the first program", "wrote the first compiler", "42") if text not in answers]
        if name != NONE and wrong:
            raise SystemExit(f"{name}: the task was not done, {wrong} is missing in {answers[:2000]}\n{one.output}")


def _read(seen: Seen, count: Count) -> Read:
    tokens = [_tokens(request, count) for request in seen.requests]
    return Read(requests=len(tokens), first=tokens[0], all=sum(tokens))


def _tokens(request: Mapping[str, Any], count: Count) -> int:
    """All that the model reads: tools that the API holds back until they are searched for are not read."""
    tools = [tool for tool in request.get("tools") or [] if not tool.get("defer_loading")]
    return sum(count(reply_text(part)) for part in (request.get("system"), tools, request.get("messages")))


def _judged(read: Mapping[str, Read], seen: Seen) -> list[tuple[str, bool]]:
    kept = description_limit("claude-code", VERSION)
    listed = {tool["name"]: tool.get("description", "") for tool in seen.requests[0]["tools"]}
    over = read[THROUGH].first - read[NONE].first
    longest = max(len(listed.get(name, "")) for name in (TOOL, SEARCH))
    named = listed.get(TOOL, "")
    return [
        (f"first request {over} tokens over one without MCP, at most {MOST_TOKENS}", over <= MOST_TOKENS),
        (f"search_tools is in the first request: {SEARCH in listed}", SEARCH in listed),
        (f"nothing is cut: the longest text has {longest} of {kept} characters", longest < kept and "…[" not in named),
        (
            f"less than direct, deferred: {read[THROUGH].all:,} of {read[DEFERRED].all:,} tokens in all",
            read[THROUGH].all < read[DEFERRED].all,
        ),
    ]


def _show(console: Console, read: Mapping[str, Read]) -> None:
    table = Table("104 tools of 8 servers, 4 calls", "requests", "first request", "over no MCP", "all requests")
    for name, one in read.items():
        over = one.first - read[NONE].first
        table.add_row(name, str(one.requests), f"{one.first:,}", f"{over:+,}", f"{one.all:,}")
    console.print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.savings.catalog", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--json", type=Path, default=record.FOLDER / "catalog.json", metavar="PATH")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
