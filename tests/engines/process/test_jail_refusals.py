"""Fail closed: a layer that is not available is one clear line, and nothing ran. And: no root is needed."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import toolfold_guest

SOURCE = os.fspath(Path(toolfold_guest.__file__).parents[1])
PACKAGES = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
ADVICE = (
    "allow user namespaces for this user (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile), or ask for isolation 'landlock'"
)
# A seccomp filter as containers have it: `unshare` is refused, all else is allowed.
REFUSE_UNSHARE = """
import struct
from toolfold_guest.jail import kernel_calls, lockdown
code = [(0x20, 0, 0, 0), (0x15, 0, 1, kernel_calls.MACHINE.setup["unshare"]), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
kernel_calls.no_new_privileges()
lockdown.load_filter(b"".join(struct.pack("=HBBI", *one) for one in code))
"""
# A limit as an administrator sets it, in a user namespace of the test's own.
REFUSE_USER_NAMESPACES = """
import os
from toolfold_guest.jail import kernel_calls
user, group = os.getuid(), os.getgid()
kernel_calls.unshare(kernel_calls.NEWUSER)
kernel_calls.open_proc()
kernel_calls.map_ids(user, group, inside=0)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
"""
RUN = """
import asyncio, os, sys
from toolfold.engines.process.doctor import PROBE, run_in_probe
from toolfold.engines.process.zygote_launch import LaunchPlan, tier_named
from toolfold.engines.process.zygote import Zygote
from toolfold.errors import EngineUnavailable
from toolfold.models import Limits

async def main():
    tier = tier_named(sys.argv[1])
    try:
        zygote = await Zygote.start(LaunchPlan(tier=tier, limits=Limits(), loop_module=PROBE))
    except EngineUnavailable as error:
        print("refused:", error)
        return
    guest = zygote.spawn()
    await guest.ready
    print(await run_in_probe(guest, sys.argv[2], {"host": os.getpid()}))
    guest.close()
    await zygote.close()

asyncio.run(main())
"""


def run(before: str, tier: str, text: str = "result = 1", *, interpreter: str = sys.executable, user: int = -1) -> str:
    done = subprocess.run(
        [interpreter, "-B", "-c", before + RUN, tier, text],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([SOURCE, *PACKAGES])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        user=None if user < 0 else user,
        group=None if user < 0 else user,
        extra_groups=None if user < 0 else [],
        text=True,
        check=False,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (REFUSE_UNSHARE, "unshare: Operation not permitted"),
        (REFUSE_USER_NAMESPACES, "unshare: No space left on device"),
    ],
    ids=["seccomp", "sysctl"],
)
def test_without_user_namespaces_the_strong_tier_refuses_in_one_line(before: str, reason: str) -> None:
    expected = f"refused: cannot isolate here: user namespaces are refused ({reason}); {ADVICE}"

    assert run(before, "namespace") == expected


@pytest.mark.parametrize("before", [REFUSE_UNSHARE, REFUSE_USER_NAMESPACES], ids=["seccomp", "sysctl"])
def test_without_user_namespaces_the_weaker_tier_runs_when_it_is_asked_for(before: str) -> None:
    assert run(before, "landlock") == "{'result': 1}"


def test_a_host_name_that_is_refused_is_told_like_a_namespace() -> None:
    number = {"x86_64": 170, "aarch64": 161}[os.uname().machine]
    before = REFUSE_UNSHARE.replace('kernel_calls.MACHINE.setup["unshare"]', str(number))
    expected = f"refused: cannot isolate here: a host name is refused (Operation not permitted); {ADVICE}"

    assert run(before, "namespace") == expected


def test_without_landlock_neither_tier_runs() -> None:
    before = REFUSE_UNSHARE.replace('setup["unshare"]', 'setup["landlock_create_ruleset"]')
    expected = (
        "refused: cannot isolate here: landlock is not available (landlock_create_ruleset: Operation not permitted); "
        "boot Linux 5.13 or later with 'landlock' in its lsm= list"
    )

    assert {run(before, tier) for tier in ("namespace", "landlock")} == {expected}


def test_a_guest_whose_own_set_up_fails_is_refused_too() -> None:
    # The zygote starts; the fork is then refused its mounts, as if memory had run out.
    limits = RUN.replace("limits=Limits()", "limits=Limits(temp_bytes=-1)")
    done = subprocess.run(
        [
            sys.executable,
            "-B",
            "-c",
            limits.replace("await guest.ready", "print(await asyncio.wait([guest.ready]))"),
            "namespace",
            "",
        ],
        env={"PYTHONPATH": os.pathsep.join([SOURCE, *PACKAGES])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "EngineUnavailable('cannot isolate here: mount: Invalid argument')" in done.stdout


@pytest.mark.parametrize("tier", ["namespace", "landlock"])
def test_an_ordinary_user_has_the_same_jail(tier: str, unproven: list[str]) -> None:
    interpreter = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
    if os.geteuid() != 0:
        interpreter, user = sys.executable, -1
    elif interpreter is None or not _others_can_read(SOURCE, *PACKAGES):
        unproven.append("an ordinary user: no interpreter and checkout that another user can read")
        pytest.skip("no interpreter and checkout that another user can read")
    else:
        user = 12_345
    text = """
import os
result = []
for attempt in ("os.kill(host, 0)", "os.fork()", "open('/etc/shadow')", "os.mkdir('/usr/x')"):
    try:
        eval(attempt)
    except OSError as error:
        result.append(type(error).__name__)
result.append(os.listdir("."))
"""

    answer = run("", tier, text, interpreter=interpreter, user=user)

    third, fourth = ("FileNotFoundError", "OSError") if tier == "namespace" else ("PermissionError", "PermissionError")
    assert answer == str({"result": ["PermissionError", "PermissionError", third, fourth, []]})


def test_a_checkout_below_the_temp_folder_works() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCE, f"{folder}/src", ignore=shutil.ignore_patterns("__pycache__"))
        os.chmod(folder, 0o755)
        before = f"import sys; sys.path.insert(0, {folder + '/src'!r})\n"

        assert run(before, "namespace") == "{'result': 1}"


def _others_can_read(*paths: str) -> bool:
    return all(parent.stat().st_mode & 0o005 == 0o005 for path in paths for parent in [Path(path), *Path(path).parents])
