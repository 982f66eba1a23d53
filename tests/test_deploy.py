"""The Dockerfile, the compose file and the Kubernetes files: that they fit the code, the docs and one another."""

import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tests.deploy_support.confine import NOT_INSTALLED
from tests.escapes_support.unprivileged import NoInterpreter, python_as_nobody
from toolfold.config import load_config
from toolfold.engines.process import shell_commands
from toolfold.errors import UsageError
from toolfold.interfaces.cli.app import app
from toolfold.interfaces.http.server_setup import DRAIN_SECONDS
from toolfold_guest.jail.syscalls import MACHINES, Machine

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
SECRETS = {"TOOLFOLD_KEY", "TOOLFOLD_TOKEN_KEY", "VALKEY_PASSWORD"}
# What the jail calls through the C library; what it calls by number is in its own table.
BY_NAME = {"mount", "sethostname", "setns", "umount2", "unshare"}


def dockerfile() -> list[tuple[str, str]]:
    """Instruction and argument, in order, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word]


def last(instruction: str) -> str:
    return [rest for word, rest in dockerfile() if word == instruction][-1]


def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def objects() -> dict[str, dict[str, Any]]:
    """Everything in deploy/kubernetes that is no patch, by `Kind/name`."""
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    documents = [d for name in listed for d in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))]
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in documents}


def pods() -> dict[str, dict[str, Any]]:
    return {name: o["spec"]["template"]["spec"] for name, o in objects().items() if "template" in o.get("spec", {})}


def containers() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Every container and its pod, by `Kind/pod/name`."""
    return {
        f"{name}/{container['name']}": (container, pod)
        for name, pod in pods().items()
        for container in (*pod.get("initContainers", ()), *pod["containers"])
    }


def profile() -> dict[str, Any]:
    return json.loads((DEPLOY / "seccomp.json").read_text(encoding="utf-8"))


def allowed(*, of_the_jail: bool = True) -> set[str]:
    rules = [rule for rule in profile()["syscalls"] if of_the_jail or not rule["comment"].startswith("the jail:")]
    return {name for rule in rules for name in rule["names"]}


def command_lines() -> list[list[str]]:
    """What follows `toolfold` in the image, in Kubernetes and in the shell blocks of the page."""
    found = [json.loads(last("CMD")), containers()["Deployment/toolfold/toolfold"][0]["args"]]
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["kubectl"] and "--" in words:
                words = words[words.index("--") :]
            elif words[:2] not in (["docker", "run"], ["docker", "exec"], ["docker", "compose"], ["podman", "run"]):
                continue
            # The command, or the image before its arguments; without any they are those of the image.
            after = words[len(words) - words[::-1].index("toolfold") :] if "toolfold" in words else []
            found += [after] if after else []
    return found


# The image


def test_every_command_line_is_one_that_toolfold_takes() -> None:
    group = typer.main.get_command(app)
    commands = []

    for words in command_lines():
        context = group.make_context("toolfold", list(words))
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        command.make_context(name, rest, parent=context)
        commands.append(name)

    assert json.loads(last("ENTRYPOINT")) == ["tini", "--", "toolfold"]
    assert set(commands) == {"serve", "doctor", "runs"}


def test_the_image_is_no_root_and_looks_at_its_own_health() -> None:
    health = last("HEALTHCHECK")
    user = last("USER")

    assert user == "10001:10001"
    assert f"--uid {user.split(':')[0]} --gid {user.split(':')[1]}" in last("RUN")
    assert f"http://127.0.0.1:{last('EXPOSE')}/health" in health
    compile(json.loads(health[health.index("[") :])[-1], "HEALTHCHECK", "exec")


def test_the_image_has_the_packages_that_bash_programs_need() -> None:
    always = {"bash", "coreutils", "diffutils", "findutils", "grep", "gzip", "sed", "tar"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell_commands, "COMMANDS", ())
        needed = set(shell_commands.refusal().partition("apt install ")[2].split())

    assert needed - always - set(last("RUN").split()) == set()
    assert needed - always == {"bc", "file", "gawk", "jq", "unzip"}


def test_what_the_image_copies_and_installs_is_there() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [
        word for kind, rest in dockerfile() if kind == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    extras = re.search(r"'\.\[([a-z,-]+)\]'", (ROOT / "Dockerfile").read_text())
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert sorted(copied) == sorted(kept)
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert extras is not None
    assert set(extras[1].split(",")) - set(known) == set()
    assert any(fnmatch.fnmatch("deploy/secret.env", line) for line in (ROOT / ".gitignore").read_text().splitlines())


# The config of the image


def test_the_config_of_the_image_takes_keys_ledger_and_tier_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOOLFOLD_LEDGER", "TOOLFOLD_ISOLATION", "TOOLFOLD_TOKEN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOOLFOLD_KEY", "key")
    plain = load_config(DEPLOY / "toolfold.yaml")
    monkeypatch.setenv("TOOLFOLD_TOKEN_KEY", "signs")
    monkeypatch.setenv("TOOLFOLD_LEDGER", "valkey://:word@valkey:6379/0")
    monkeypatch.setenv("TOOLFOLD_ISOLATION", "landlock")
    replica = load_config(DEPLOY / "toolfold.yaml")

    def shown(config: Any) -> tuple[object, ...]:
        keys = {tenant: [key.key.get_secret_value() for key in keys] for tenant, keys in config.http.keys.items()}
        signs = config.http.token_key.get_secret_value() if config.http.token_key else None
        return config.http.host, keys, signs, config.ledger.where, config.engine, config.isolation

    keys = {"default": ["key"]}
    assert shown(plain) == ("0.0.0.0", keys, None, "/state/ledger.sqlite", "process", "namespace")
    assert shown(replica) == ("0.0.0.0", keys, "signs", "valkey://:word@valkey:6379/0", "process", "landlock")


def test_without_a_key_the_image_says_which_variable_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLFOLD_KEY", raising=False)

    with pytest.raises(UsageError) as caught:
        load_config(DEPLOY / "toolfold.yaml")

    assert "TOOLFOLD_KEY" in str(caught.value)


# Compose


def test_compose_gives_toolfold_no_right_but_the_profile() -> None:
    services = compose()["services"]
    toolfold = services["toolfold"]

    assert [name for name, service in services.items() if "privileged" in service or "cap_add" in service] == []
    assert [service["cap_drop"] for service in services.values()] == [["ALL"], ["ALL"]]
    assert [service["read_only"] for service in services.values()] == [True, True]
    assert toolfold["security_opt"] == [
        "no-new-privileges:true", "seccomp=deploy/seccomp.json", "apparmor=${TOOLFOLD_APPARMOR:-unconfined}",
    ]  # fmt: skip
    assert "user" not in toolfold  # the image's own, which is no root
    assert services["valkey"]["user"] == "999:999"


def test_compose_takes_every_secret_from_outside_and_waits_for_the_drain() -> None:
    toolfold = compose()["services"]["toolfold"]
    variables = set(re.findall(r"\$\{(\w+):\?", str(compose())))

    assert variables == SECRETS
    assert set(toolfold["environment"]) >= set(
        re.findall(r"\$\{(\w+)", re.sub("#.*", "", (DEPLOY / "toolfold.yaml").read_text()))
    )
    assert int(toolfold["stop_grace_period"].removesuffix("s")) > DRAIN_SECONDS


# Kubernetes


def test_pods_are_what_the_restricted_standard_asks_for() -> None:
    root = {"DaemonSet/toolfold-seccomp/copy"}  # writes one file into root's folder on the node

    for name, (container, pod) in containers().items():
        context = {**pod.get("securityContext", {}), **container["securityContext"]}
        assert (name, context["allowPrivilegeEscalation"], context["capabilities"]) == (name, False, {"drop": ["ALL"]})
        assert (name, context["readOnlyRootFilesystem"], "privileged" in context) == (name, True, False)
        assert (name, context.get("runAsNonRoot", False)) == (name, name not in root)
        assert pod["automountServiceAccountToken"] is False
    kinds = {name: container["securityContext"]["seccompProfile"] for name, (container, _) in containers().items()}
    assert kinds.pop("Deployment/toolfold/toolfold") == {"type": "Localhost", "localhostProfile": "toolfold.json"}
    assert set(map(str, kinds.values())) == {str({"type": "RuntimeDefault"})}
    copied = containers()["DaemonSet/toolfold-seccomp/copy"][0]["command"][-1]
    assert Path(copied).name == "toolfold.json"


def test_replicas_are_found_probed_and_drained() -> None:
    deployment = objects()["Deployment/toolfold"]["spec"]
    container, pod = containers()["Deployment/toolfold/toolfold"]
    service = objects()["Service/toolfold"]["spec"]

    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert (deployment["replicas"], objects()["PodDisruptionBudget/toolfold"]["spec"]["minAvailable"]) == (2, 1)
    assert probes == {
        "startupProbe": {"path": "/ready", "port": "http"},
        "readinessProbe": {"path": "/ready", "port": "http"},
        "livenessProbe": {"path": "/health", "port": "http"},
    }
    assert container["ports"] == [{"name": "http", "containerPort": int(last("EXPOSE"))}]
    assert service == {
        "selector": {"app": "toolfold"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    }  # fmt: skip
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] > waits + DRAIN_SECONDS
    variables = {row["name"]: row for row in container["env"]}
    assert {
        row["valueFrom"]["secretKeyRef"]["key"] for row in container["env"] if "secretKeyRef" in str(row)
    } == SECRETS
    assert variables["POD_IP"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert container["args"][-2:] == ["--advertise", "http://$(POD_IP):8000"]


def test_every_pod_has_a_rule_for_its_network_and_every_rule_a_pod() -> None:
    labels = {
        (o["metadata"]["namespace"], str(o["spec"]["template"]["metadata"]["labels"]))
        for o in objects().values()
        if "template" in o.get("spec", {})
    }
    rules = {name: o for name, o in objects().items() if o["kind"] == "NetworkPolicy"}
    chosen = {(o["metadata"]["namespace"], str(o["spec"]["podSelector"].get("matchLabels"))) for o in rules.values()}

    assert [o["spec"]["policyTypes"] for o in rules.values()] == [["Ingress", "Egress"]] * 3
    # The one without labels is for all pods of its namespace.
    assert chosen == {label for label in labels if label[0] == "toolfold"} | {("toolfold-nodes", "None")}


@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_valkey_keeps_what_it_acknowledged(where: str) -> None:
    asked = re.findall(r"^\| `([a-z-]+ [a-z]+)` \|", (ROOT / "docs" / "ledger.md").read_text(), re.MULTILINE)
    service = compose()["services"]["valkey"] if where == "compose" else containers()["StatefulSet/valkey/valkey"][0]
    settings = service["command"][-1].splitlines()

    assert len(asked) == 3
    assert [line for line in asked if line not in settings] == []


# The profile


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
def test_the_profile_allows_what_the_jail_and_its_guests_call(machine: Machine) -> None:
    tables = (machine.allowed, machine.attributes, machine.checked, machine.setup, machine.own)

    wanted = {name for table in tables for name in table} | BY_NAME

    assert wanted - allowed() == set()


def test_the_profile_adds_to_the_usual_calls_only_what_the_jail_needs() -> None:
    machine = MACHINES["x86_64"]
    added = allowed() - allowed(of_the_jail=False)
    # Of the jail's own calls, those that a container's usual profile refuses.
    usual = {"seccomp", "close_range", *(name for name in machine.own if name.startswith("landlock_"))}
    never = {"bpf", "init_module", "io_uring_setup", "kexec_load", "keyctl", "perf_event_open", "ptrace", "userfaultfd"}

    assert added == (set(machine.own) - usual) | BY_NAME
    assert allowed() & never == set()
    assert profile()["defaultAction"] == "SCMP_ACT_ERRNO"
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert [name for name in sorted(added) if f"`{name}`" not in page] == []


def doctor_under(tmp_path: Path, rules: dict[str, Any], unproven: list[str]) -> dict[str, Any]:
    """What the doctor finds as an ordinary user without rights, under these rules."""
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(rules))
    made = [folder for folder in (tmp_path, *tmp_path.parents) if Path(tempfile.gettempdir()) in folder.parents]
    for folder in made:
        folder.chmod(0o755)
    file.chmod(0o644)
    arguments = ["tests/deploy_support/confine.py", str(file), "tests/deploy_support/doctor.py"]
    try:
        if os.geteuid() == 0:
            done = python_as_nobody(*arguments, copy=["src", "tests/deploy_support"])
        else:
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
            done = subprocess.run(
                [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
    except NoInterpreter as error:
        unproven.append(f"deploy/seccomp.json: {error}")
        pytest.skip(str(error))
    if done.returncode == NOT_INSTALLED:
        unproven.append("deploy/seccomp.json: libseccomp is not installed")
        pytest.skip("libseccomp is not installed")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_under_the_profile_and_without_rights_every_layer_is_there(tmp_path: Path, unproven: list[str]) -> None:
    found = doctor_under(tmp_path, profile(), unproven)

    assert [layer["name"] for layer in found["layers"] if not layer["ok"]] == []
    assert (found["tier"], found["ok"]) == ("namespace", True)


@pytest.mark.long
def test_without_the_jails_part_of_the_profile_the_doctor_refuses(tmp_path: Path, unproven: list[str]) -> None:
    rules = profile()
    rules["syscalls"] = [rule for rule in rules["syscalls"] if not rule["comment"].startswith("the jail:")]

    found = doctor_under(tmp_path, rules, unproven)

    assert (found["tier"], found["ok"]) == ("landlock", False)


# Ray


def test_the_ray_cluster_runs_programs_under_the_profile_and_none_beside_its_head() -> None:
    documents = yaml.safe_load_all((DEPLOY / "kuberay" / "raycluster.yaml").read_text(encoding="utf-8"))
    cluster, policy = documents
    head, (workers,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    pods = {"head": head["template"]["spec"], "workers": workers["template"]["spec"]}
    containers = {name: pod["containers"][0] for name, pod in pods.items()}
    installed = re.search(r"^ray==(\S+)", (ROOT / "requirements" / "ray.txt").read_text(), re.MULTILINE)

    assert installed is not None
    assert cluster["spec"]["rayVersion"] == installed[1].split(";")[0].strip()
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert containers["workers"]["securityContext"]["seccompProfile"]["localhostProfile"] == "toolfold.json"
    assert [pod["securityContext"]["runAsNonRoot"] for pod in pods.values()] == [True, True]
    assert [one["securityContext"]["capabilities"] for one in containers.values()] == [{"drop": ["ALL"]}] * 2
    assert policy["spec"]["podSelector"] == {"matchLabels": head["template"]["metadata"]["labels"]}
