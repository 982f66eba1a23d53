"""`toolfold doctor`: what this machine can promise, one line per finding, or as JSON."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from toolfold.config import find_config, load_config
from toolfold.doors.cli.exits import Exit
from toolfold.engines.process.doctor import Diagnosis, Finding, examine
from toolfold.models import Isolation


def diagnose(*, as_json: bool, required: Isolation) -> int:
    """Examine, print, and say through the exit code whether the required tier is available."""
    path = find_config()
    host_libraries = load_config(path).libraries.host if path is not None else False
    diagnosis = asyncio.run(examine(required, host_libraries=host_libraries))
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if as_json:
        console.out(json.dumps(asdict(diagnosis), indent=2))
    else:
        print_diagnosis(diagnosis, console)
    return Exit.FINISHED if diagnosis.ok else Exit.NO_ISOLATION


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """The layers, then per tier each attack and what the tier cannot enforce, then the verdict."""
    console.print(f"{diagnosis.kernel}, {diagnosis.machine}, Python {diagnosis.python}, user {diagnosis.user}")
    console.print("\nlayers")
    _print_findings(diagnosis.layers, console, good="there", bad="MISSING")
    for tier, findings in diagnosis.canaries.items():
        console.print(f"\nattacks in tier {tier}")
        _print_findings(findings, console, good="held", bad="NOT HELD")
        for note in diagnosis.notes.get(tier, ()):
            console.print(f"  note: {note}")
    console.print(f"\nlibraries of programs: {', '.join(diagnosis.libraries) or 'none'}")
    if diagnosis.host_libraries:
        console.print("  and every other package that is installed here: libraries.host is on in toolfold.yaml")
    console.print(f"\nstrongest tier that holds here: {diagnosis.tier}")
    console.print(f"required: {diagnosis.required}, {'holds' if diagnosis.ok else 'DOES NOT HOLD: nothing runs in it'}")


def _print_findings(findings: Sequence[Finding], console: Console, *, good: str, bad: str) -> None:
    before = ""
    for finding in findings:
        line = Text(f"  {finding.name:<32}")
        line.append(f"{good if finding.ok else bad:<10}", style="green" if finding.ok else "bold red")
        # One cause often shows in many lines; its text is long.
        line.append("the same" if finding.detail == before and len(before) > len("the same") * 3 else finding.detail)
        before = finding.detail
        line.rstrip()
        console.print(line)
