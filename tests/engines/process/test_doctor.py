"""The doctor tells the truth, and its attacks are real: each reaches its aim where nothing holds it."""

import os
import platform

import pytest

from toolfold.engines.process import doctor
from toolfold.engines.process.tiers import LAYERS, Tier


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


async def test_every_attack_reaches_its_aim_where_nothing_holds_it() -> None:
    findings, _ = await doctor._attack_tier(Tier("none", frozenset()))

    leaked = "leaked: the attack reached its aim"
    assert {finding.name: finding.detail for finding in findings} == {
        **dict.fromkeys(doctor.ATTACKS, leaked),
        "write to the standard library": leaked if os.access(os.__file__, os.W_OK) else "PermissionError",
        "exec": "no answer from the jail (the guest ended)",
    }


async def test_an_attack_that_is_broken_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ATTACKS", {"broken": "no_such_name", "silent": "import os; os._exit(0)"})

    findings, _ = await doctor._attack_tier(Tier("none", frozenset()))

    assert findings == (
        doctor.Finding(name="broken", ok=False, detail="NameError"),
        doctor.Finding(name="silent", ok=False, detail="no answer from the jail (the guest ended)"),
    )
