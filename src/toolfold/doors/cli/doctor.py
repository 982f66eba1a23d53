"""`toolfold doctor`: what this machine can promise, as a table or as JSON."""

import asyncio
import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from toolfold.doors.cli.exits import Exit
from toolfold.engines.process.doctor import Diagnosis, examine
from toolfold.models import Isolation


def diagnose(*, as_json: bool, required: Isolation) -> int:
    """Examine, print, and say through the exit code whether the required tier can be had."""
    diagnosis = asyncio.run(examine(required))
    if as_json:
        Console(soft_wrap=True).print_json(json.dumps(asdict(diagnosis)))
    else:
        _print(diagnosis, Console(soft_wrap=True))
    return Exit.FINISHED if diagnosis.ok else Exit.NO_ISOLATION


def _print(diagnosis: Diagnosis, console: Console) -> None:
    console.print(
        f"{diagnosis.kernel} on {diagnosis.machine}, Python {diagnosis.python}, as {diagnosis.user}", highlight=False
    )
    console.print(_layers(diagnosis))
    for tier, results in diagnosis.canaries.items():
        console.print(_canaries(tier, results))
    console.print(f"tier that this machine can give: {diagnosis.tier}", highlight=False)
    verdict = "can be had" if diagnosis.ok else "CANNOT be had; nothing will run in it"
    console.print(f"required tier {diagnosis.required!r} {verdict}", highlight=False)


def _layers(diagnosis: Diagnosis) -> Table:
    table = Table("layer", "state", title="isolation layers", title_justify="left", box=None)
    for layer, state in diagnosis.layers.items():
        table.add_row(layer, state)
    return table


def _canaries(tier: str, results: dict[str, str]) -> Table:
    table = Table("attack", "result", title=f"attacks tried in tier {tier}", title_justify="left", box=None)
    for attack, result in results.items():
        table.add_row(attack, result)
    return table
