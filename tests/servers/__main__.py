"""Real servers, all bridged by one bridge: `make test NAME=servers`. Says loudly what it could not run."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.servers.cases import CASES, Case
from tests.servers.install import CannotInstall, install_npm, install_python
from toolfold import Outcome, Runtime
from toolfold.sources.mcp import Bridge, ServerStatus


def main() -> int:
    """Exit status 0 if every server that could be installed did what it should."""
    missing = {}
    for is_npm, install in ((True, install_npm), (False, install_python)):
        try:
            install()
        except CannotInstall as error:
            missing[is_npm] = str(error)
    cases = [case for case in CASES if case.is_npm not in missing]
    console = Console(width=max(Console().width, 120))
    is_good = True
    if cases:
        with tempfile.TemporaryDirectory() as folder:
            is_good = asyncio.run(_run(cases, Path(folder), console))
    for is_npm, why in missing.items():
        names = ", ".join(case.package for case in CASES if case.is_npm is is_npm)
        console.print(f"NOT RUN: {names}: {why}", style="bold red", markup=False)
    return 0 if is_good else 1


async def _run(cases: Sequence[Case], folder: Path, console: Console) -> bool:
    _make_repository(folder / "repo")
    servers = [case.server(str(folder)) for case in cases]
    async with Bridge(servers, eras=folder / "eras.json") as bridge:
        began = time.perf_counter()
        await bridge.settled(timeout_seconds=60)
        settled = time.perf_counter() - began
        status = {one.name: one for one in bridge.status()}
        async with Runtime(bridge.tools()) as runtime:
            outcomes = [await runtime.run(case.program.replace("FOLDER", str(folder))) for case in cases]
            together = await runtime.run(_together(cases).replace("FOLDER", str(folder)))
        tools = len(bridge.tools())
    table = Table(
        "server", "state", "era", "tools", "calls", "seconds", "outcome", title=f"{tools} tools of one bridge"
    )
    for case, outcome in zip(cases, outcomes, strict=True):
        table.add_row(*_row(case, status[case.name], outcome))
    calls, seconds = str(len(together.calls)), f"{together.seconds:.2f}"
    table.add_row("all of them at once", "", "", "", calls, seconds, together.status)
    console.print(table)
    console.print(f"all servers were settled after {settled:.1f} s", highlight=False)
    failed = [outcome for outcome in (*outcomes, together) if outcome.status != "finished"]
    for outcome in failed:
        console.print(f"{outcome.problem}\n{outcome.stderr}", style="red", markup=False)
    return not failed


def _together(cases: Sequence[Case]) -> str:
    """A program that calls all servers at once, three times each."""
    calls = ", ".join(case.together for case in cases)
    return (
        f"import asyncio\nvalues = await asyncio.gather(*[{calls}], *[{calls}], *[{calls}])\nassert all(values), values"
    )


def _row(case: Case, status: ServerStatus, outcome: Outcome) -> tuple[str, ...]:
    names = {call.name for call in outcome.calls}
    return (
        case.package,
        status.state,
        status.era,
        str(status.tools),
        f"{len(outcome.calls)} of {len(names)} tools",
        f"{outcome.seconds:.2f}",
        outcome.status if not status.detail else f"{outcome.status}: {status.detail}",
    )


def _make_repository(folder: Path) -> None:
    folder.mkdir()
    for command in (["init", "-q"], ["config", "user.name", "Test"], ["config", "user.email", "test@example.org"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    (folder / "note.txt").write_text("a note\n")


if __name__ == "__main__":
    sys.exit(main())
