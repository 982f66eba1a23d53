import io
import json
from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from rich.console import Console

from tests.interfaces.cli.conftest import Cli
from toolfold.engines.process.doctor import Diagnosis, Finding
from toolfold.interfaces.cli.commands.doctor import print_diagnosis


@pytest.mark.long
def test_the_doctor_names_every_layer_and_tries_attacks_in_both_tiers(cli: Cli, unproven: list[str]) -> None:
    done = cli("doctor", "--json")

    shown = json.loads(done.stdout)

    assert (done.returncode, done.stderr) == (0 if shown["ok"] else 3, b"")
    assert (shown["required"], sorted(shown["canaries"])) == ("namespace", ["landlock", "namespace"])
    for layer in shown["layers"]:
        if not layer["ok"]:
            unproven.append(f"layer {layer['name']}: {layer['detail']}")
    for tier, attacks in shown["canaries"].items():
        for attack in attacks:
            if not attack["ok"]:
                unproven.append(f"tier {tier}, attack {attack['name']!r}: {attack['detail']}")


def test_a_diagnosis_is_one_line_per_finding_and_ends_in_the_verdict() -> None:
    refused = "user namespaces are refused; ask for isolation 'landlock'"
    diagnosis = Diagnosis(
        kernel="6.1",
        machine="x86_64",
        python="3.11.7",
        user=1000,
        layers=(
            Finding(name="user", ok=False, detail=refused),
            Finding(name="pid", ok=False, detail=refused),
            Finding(name="seccomp", ok=True, detail=""),
        ),
        canaries={
            "landlock": (
                Finding(name="fork", ok=True, detail="PermissionError"),
                Finding(name="exec", ok=False, detail="leaked: the attack succeeded"),
            ),
            "namespace": (
                Finding(name="fork", ok=False, detail=f"not tried: {refused}"),
                Finding(name="exec", ok=False, detail=f"not tried: {refused}"),
            ),
        },
        notes={"landlock": ("the program can see which files the host has",)},
        libraries=("numpy", "pandas"),
        library_sets={"main": "installed; networkx, lxml", "old": "not locked; run 'toolfold libraries sync'; zebra"},
        host_libraries=True,
        bash_refusal="bash programs need jq",
        tier="landlock",
        required="namespace",
        ok=False,
    )

    assert printed_diagnosis(diagnosis) == snapshot("""\
6.1, x86_64, Python 3.11.7, user 1000

layers
  user                            MISSING     user namespaces are refused; ask for isolation 'landlock'
  pid                             MISSING     same as above
  seccomp                         available

attacks at isolation level landlock
  fork                            blocked     PermissionError
  exec                            NOT BLOCKED leaked: the attack succeeded
  note: the program can see which files the host has

attacks at isolation level namespace
  fork                            not tried   user namespaces are refused; ask for isolation 'landlock'
  exec                            not tried   same as above

bash programs: NOT AVAILABLE: bash programs need jq

libraries for programs: numpy, pandas
  set main: installed; networkx, lxml
  set old: not locked; run 'toolfold libraries sync'; zebra
  and every other package that is installed here: libraries.host is on in toolfold.yaml

strongest isolation level available: landlock
required: namespace, NOT AVAILABLE: programs cannot run
""")
    with_bash = replace(
        diagnosis,
        bash_refusal="",
        bash_memory="added up by the host about 30 times a second",
        cgroup_refusal="no right",
    )
    assert [line for line in printed_diagnosis(with_bash).splitlines() if "bash" in line] == [
        "bash programs: available, in the shell profile",
        "  memory of bash programs: added up by the host about 30 times a second (no right)",
    ]


def printed_diagnosis(diagnosis: Diagnosis) -> str:
    printed = io.StringIO()
    print_diagnosis(diagnosis, Console(file=printed, soft_wrap=True, highlight=False, markup=False))
    return printed.getvalue()
