"""The doctor tells the truth, and its attacks are real: each reaches its aim where nothing holds it."""

import asyncio
import os
import platform

import pytest

from toolfold.engines.process import doctor, shell_commands
from toolfold.engines.process.cgroup import CgroupMaker
from toolfold.engines.process.zygote_launch import LAYERS, Layer, Tier
from toolfold.errors import EngineUnavailable
from toolfold.runtime import Runtime


@pytest.mark.long
async def test_a_diagnosis_names_every_layer_and_every_attack(unproven: list[str]) -> None:
    found = await doctor.examine()

    unproven += [f"{layer.name}: {layer.detail}" for layer in found.layers if not layer.ok]
    held = {tier: all(finding.ok for finding in findings) for tier, findings in found.canaries.items()}
    reached = "namespace" if held["namespace"] else "landlock" if held["landlock"] else "none"
    assert (found.kernel, found.machine, found.user) == (platform.release(), platform.machine(), os.geteuid())
    assert [layer.name for layer in found.layers] == list(LAYERS)
    assert {tier: [finding.name for finding in findings] for tier, findings in found.canaries.items()} == {
        "landlock": list(doctor.ATTACKS),
        "namespace": list(doctor.ATTACKS),
    }
    assert (found.tier, found.required, found.ok) == (reached, "namespace", reached == "namespace")
    if found.bash_refusal:
        unproven.append(f"bash programs: {found.bash_refusal}")
    else:
        attacks = [name for name in doctor.ATTACKS if name not in ("fork", "exec")]
        assert [(finding.name, finding.ok) for finding in found.bash] == [(name, True) for name in attacks]
        unproven += [f"memory of bash programs in a cgroup: {found.cgroup_refusal}"] if found.cgroup_refusal else []
        refusal = CgroupMaker().refusal
        assert (found.bash_memory, found.cgroup_refusal) == (
            doctor.ADDED_UP if refusal else doctor.IN_A_CGROUP,
            refusal,
        )


async def test_a_cgroup_that_does_not_limit_a_program_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(*_: object) -> None:
        return None

    monkeypatch.setattr(CgroupMaker, "move", lambda *_, **__: asyncio.ensure_future(nowhere()))

    found = await doctor.examine()

    reason = CgroupMaker().refusal or "a cgroup did not end a program over its memory"
    expected = ("", "") if found.bash_refusal else (doctor.ADDED_UP, reason)
    assert (found.bash_memory, found.cgroup_refusal) == expected


async def test_a_machine_without_jq_is_told_what_bash_programs_need_and_runs_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shell_commands, "COMMANDS", [name for name in shell_commands.COMMANDS if name != "jq"])
    refusal = (
        "bash programs need jq; on Debian: apt install "
        "bash coreutils jq grep sed gawk findutils diffutils tar gzip unzip file bc"
    )

    found = await doctor.examine()
    async with Runtime(engine="process") as runtime:
        outcome = await runtime.run("1 + 1")
        with pytest.raises(EngineUnavailable) as caught:
            await runtime.run("true", language="bash")

    assert (found.bash, found.bash_refusal, found.bash_memory) == ((), refusal, "")
    assert (outcome.value, str(caught.value)) == (2, refusal)


async def test_a_layer_that_no_tier_has_proven_is_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._attack_tier

    async def refuse_namespaces(tier: Tier, *, host_libraries: bool = False) -> doctor._TierReport:
        if tier.name == "landlock":
            return await real(tier, host_libraries=host_libraries)
        return doctor._TierReport(findings=(doctor.Finding(name="fork", ok=False, detail="refused"),))

    tried: list[str] = []

    async def note(layer: Layer) -> doctor.Finding:
        tried.append(layer)
        return doctor.Finding(name=layer, ok=False, detail="refused")

    monkeypatch.setattr(doctor, "_attack_tier", refuse_namespaces)
    monkeypatch.setattr(doctor, "_try_layer", note)

    found = await doctor.examine()

    assert tried == ["user", "mount", "pid", "net", "ipc", "uts", "cgroup"]
    assert [layer.name for layer in found.layers if layer.ok] == ["rlimits", "caps", "landlock", "seccomp"]
    assert (found.tier, found.ok) == ("landlock", False)


async def test_every_attack_reaches_its_aim_where_nothing_holds_it() -> None:
    findings = (await doctor._attack_tier(Tier("none", frozenset()))).findings

    leaked = "leaked: the attack succeeded"
    assert {finding.name: finding.detail for finding in findings} == {
        **dict.fromkeys(doctor.ATTACKS, leaked),
        "write to the standard library": leaked if os.access(os.__file__, os.W_OK) else "PermissionError",
        "exec": "no answer from the jail (the guest ended)",
    }


async def test_an_attack_that_is_broken_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ATTACKS", {"broken": "no_such_name", "silent": "import os; os._exit(0)"})

    findings = (await doctor._attack_tier(Tier("none", frozenset()))).findings

    assert findings == (
        doctor.Finding(name="broken", ok=False, detail="NameError"),
        doctor.Finding(name="silent", ok=False, detail="no answer from the jail (the guest ended)"),
    )


async def test_attacks_without_a_jail_to_run_them_in_were_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ATTACKS", {"fork": "import os; os.fork() or os._exit(0)"})
    monkeypatch.setattr("sys.platform", "plan9")

    report = await doctor._attack_tier(Tier("landlock", frozenset(["landlock"])))

    detail = "not tried: the process engine needs Linux, this is 'plan9'"
    assert (report.findings, report.locked) == ((doctor.Finding(name="fork", ok=False, detail=detail),), False)
    assert [finding.is_tried for finding in report.findings] == [False]
