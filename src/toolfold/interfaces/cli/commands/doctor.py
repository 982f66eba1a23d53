"""`toolfold doctor` and `toolfold engines`: what engines find on this machine, and on the nodes of a cluster."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from toolfold.engines.process.doctor import NOT_TRIED, Diagnosis, Finding, examine
from toolfold.errors import EngineUnavailable
from toolfold.interfaces.cli.command_process import Exit, handle_interrupts, run_async, write_json
from toolfold.interfaces.cli.command_setup import nearest_config
from toolfold.models import Isolation

if TYPE_CHECKING:
    from toolfold.config import Config

WASM: Final = "engine wasm"
_REPEATED: Final = "same as above"


def diagnose(*, as_json: bool, required: Isolation) -> int:
    """Examine, print, and say through the exit code whether the required tier is available."""
    config = nearest_config()
    diagnosis = run_async(examine(required, host_libraries=config is not None and config.libraries.host))
    diagnosis = replace(diagnosis, wasm=run_async(_examine_wasm(must_prepare=False)))
    if config is not None:
        diagnosis = replace(diagnosis, library_sets=_library_sets(config))
    if as_json:
        write_json(asdict(diagnosis))
    else:
        print_diagnosis(diagnosis, _console())
    return Exit.FINISHED if diagnosis.ok else Exit.NO_ISOLATION


def diagnose_wasm(*, as_json: bool) -> int:
    """Have the wasm engine ready, compiled if it has to be, and say what holds around its workers."""
    findings = run_async(_examine_wasm(must_prepare=True))
    if as_json:
        write_json({"wasm": [asdict(finding) for finding in findings]})
    else:
        _print_wasm(findings, _console())
    return Exit.FINISHED if findings[0].ok else Exit.NO_ISOLATION


async def _examine_wasm(*, must_prepare: bool) -> tuple[Finding, ...]:
    """The engine itself first; its layers only if it is ready."""
    from toolfold.engines.wasm import artifacts
    from toolfold.engines.wasm.engine import WasmEngine

    try:
        if not must_prepare and not artifacts.locate().is_complete:
            advice = "not compiled yet, which takes about a minute; run 'toolfold engines prepare wasm'"
            return (Finding(name=WASM, ok=False, detail=advice),)
        async with WasmEngine(warm=1) as engine:
            layers = await engine.layers()
    except (artifacts.ArtifactError, EngineUnavailable) as error:
        return (Finding(name=WASM, ok=False, detail=str(error)),)
    around = [Finding(name=name, ok=name in layers, detail="") for name in artifacts.WORKER_LAYERS]
    return (Finding(name=WASM, ok=True, detail=f"CPython {artifacts.PYTHON} in WebAssembly"), *around)


def prepare_engine(name: str, *, as_json: bool) -> int:
    """Compile the wasm engine's interpreter if that is left to do, with a line for each step."""
    from toolfold.engines.wasm import artifacts

    handle_interrupts()
    try:
        folder = artifacts.prepare(report=lambda line: print(f"toolfold: {line}", file=sys.stderr))
    except artifacts.ArtifactError as error:
        raise EngineUnavailable(str(error)) from error
    if as_json:
        write_json({"engine": name, "folder": str(folder)})
    else:
        print(f"the {name} engine is ready in {folder}")
    return Exit.FINISHED


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
    if diagnosis.wasm:
        console.print()
        _print_wasm(diagnosis.wasm, console)
    console.print(f"\nlibraries for programs: {', '.join(diagnosis.libraries) or 'none'}")
    for name, state in diagnosis.library_sets.items():
        console.print(f"  set {name}: {state}")
    if diagnosis.host_libraries:
        console.print("  and every other package that is installed here: libraries.host is on in toolfold.yaml")
    console.print(f"\nstrongest isolation level available: {diagnosis.tier}")
    console.print(
        f"required: {diagnosis.required}, {'available' if diagnosis.ok else 'NOT AVAILABLE: programs cannot run'}"
    )


def _print_wasm(findings: Sequence[Finding], console: Console) -> None:
    ready, *around = findings
    console.print(f"engine wasm: {'ready' if ready.ok else 'NOT READY'}, {ready.detail}")
    if around:
        console.print("  around its workers, besides WebAssembly itself:")
    _print_findings(around, console, good="available", bad="MISSING")


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
