"""`toolfold doctor`: isolation layers of this machine, and of the nodes of a cluster."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from toolfold.engines.process.doctor import NOT_TRIED, Diagnosis, Finding, examine
from toolfold.interfaces.cli.command_process import Exit, run_async, write_json
from toolfold.interfaces.cli.command_setup import nearest_config
from toolfold.models import Isolation

if TYPE_CHECKING:
    from toolfold.config import Config

_REPEATED: Final = "same as above"


def diagnose(*, as_json: bool, required: Isolation) -> int:
    """Examine, print, and say through the exit code whether the required tier is available."""
    config = nearest_config()
    diagnosis = run_async(examine(required, host_libraries=config is not None and config.libraries.host))
    if config is not None:
        diagnosis = replace(diagnosis, library_sets=_library_sets(config))
    if as_json:
        write_json(asdict(diagnosis))
    else:
        print_diagnosis(diagnosis, _console())
    return Exit.FINISHED if diagnosis.ok else Exit.NO_ISOLATION


def _library_sets(config: "Config") -> dict[str, str]:
    if not config.libraries.packages and not config.libraries.sets:
        return {}
    from toolfold.config.library_sets import set_states

    return {
        name: f"{state.text}; {', '.join(state.requirement.packages)}" for name, state in set_states(config).items()
    }


def diagnose_cluster(address: str | None, *, as_json: bool, required: Isolation) -> int:
    """The same on each node of a Ray cluster: all of them must give the required tier."""
    from toolfold.engines.ray.cluster import examine_nodes

    config = nearest_config()
    diagnoses = examine_nodes(address or ("auto" if config is None else config.ray.address), required)
    if as_json:
        write_json({
            node: {"error": diagnosis} if isinstance(diagnosis, str) else asdict(diagnosis)
            for node, diagnosis in diagnoses.items()
        })  # fmt: skip
    else:
        console = _console()
        for node, diagnosis in diagnoses.items():
            console.print(f"node {node}")
            if isinstance(diagnosis, str):
                console.print(f"CANNOT RUN PROGRAMS: {diagnosis}")
            else:
                print_diagnosis(diagnosis, console)
            console.print()
    is_good = all(not isinstance(diagnosis, str) and diagnosis.ok for diagnosis in diagnoses.values())
    return Exit.FINISHED if is_good else Exit.NO_ISOLATION


def _console() -> Console:
    return Console(soft_wrap=True, highlight=False, markup=False)


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """The layers, then per tier each attack and what the tier cannot enforce, then the verdict."""
    console.print(f"{diagnosis.kernel}, {diagnosis.machine}, Python {diagnosis.python}, user {diagnosis.user}")
    console.print("\nlayers")
    _print_findings(diagnosis.layers, console, good="available", bad="MISSING")
    for tier, findings in diagnosis.canaries.items():
        console.print(f"\nattacks at isolation level {tier}")
        _print_findings(findings, console, good="blocked", bad="NOT BLOCKED")
        for note in diagnosis.notes.get(tier, ()):
            console.print(f"  note: {note}")
    if diagnosis.bash_refusal:
        console.print(f"\nbash programs: NOT AVAILABLE: {diagnosis.bash_refusal}")
    else:
        console.print("\nbash programs: available, in the shell profile")
        reason = f" ({diagnosis.cgroup_refusal})" if diagnosis.cgroup_refusal else ""
        console.print(f"  memory of bash programs: {diagnosis.bash_memory}{reason}")
        _print_findings(diagnosis.bash, console, good="blocked", bad="NOT BLOCKED")
    console.print(f"\nlibraries for programs: {', '.join(diagnosis.libraries) or 'none'}")
    for name, state in diagnosis.library_sets.items():
        console.print(f"  set {name}: {state}")
    if diagnosis.host_libraries:
        console.print("  and every other package that is installed here: libraries.host is on in toolfold.yaml")
    console.print(f"\nstrongest isolation level available: {diagnosis.tier}")
    console.print(
        f"required: {diagnosis.required}, {'available' if diagnosis.ok else 'NOT AVAILABLE: programs cannot run'}"
    )


def _print_findings(findings: Sequence[Finding], console: Console, *, good: str, bad: str) -> None:
    before = ""
    for finding in findings:
        line = Text(f"  {finding.name:<32}")
        verdict = good if finding.ok else bad if finding.is_tried else "not tried"
        line.append(f"{verdict:<12}", style="green" if finding.ok else "bold red")
        # One cause often shows in many lines; its text is long.
        detail = finding.detail.removeprefix(NOT_TRIED)
        line.append(_REPEATED if detail == before and len(before) > len(_REPEATED) * 2 else detail)
        before = detail
        line.rstrip()
        console.print(line)
