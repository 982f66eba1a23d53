"""Diagnosis of this machine's isolation: each layer tried for real, then attacks from inside the jail.

Nothing is read off a setting. A layer is there when a guest was locked with it; an attack was held
when the guest says how it failed. Silence is failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from toolfold.engines.process import jail_layout, shell_commands
from toolfold.engines.process.guest import Guest
from toolfold.engines.process.zygote import Zygote
from toolfold.engines.process.zygote_launch import (
    LANDLOCK,
    LAYERS,
    NAMESPACE,
    NAMESPACES,
    LaunchPlan,
    Layer,
    Tier,
    TierName,
)
from toolfold.errors import EngineError
from toolfold.models import MIB, Isolation, Limits
from toolfold_guest.shared.wire_format import HEADER

ATTACK_SECONDS: Final = 5.0
PROBE: Final = "toolfold_guest.jail.probe_program"
NOT_TRIED: Final = "not tried: "
"""The beginning of `Finding.detail` of an attack that could not be made."""
_STRENGTH: Final[dict[str, int]] = {"none": 0, "landlock": 1, "namespace": 2}

ATTACKS: Final[dict[str, str]] = {
    "read a host file": "open(host_file).read()",
    "tcp to the host": "import socket; socket.create_connection(('127.0.0.1', port), 1)",
    "unix socket of the host": "import socket; socket.socket(socket.AF_UNIX).connect(unix_socket)",
    "signal the host": "import os; os.kill(host_pid, 0)",
    "environment of the host": "open(f'/proc/{host_pid}/environ', 'rb').read(1)",
    "fork": "import os; os.fork() or os._exit(0)",
    "exec": "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])",
    "write to the standard library": "import os; open(os.__file__, 'a')",
    "open a user namespace": (
        "import ctypes, os\n"
        "if ctypes.CDLL(None, use_errno=True).unshare(0x10000000): raise OSError(ctypes.get_errno(), 'unshare')"
    ),
    "change the mode of a host file": "import os; os.chmod(host_file, 0o600)",
    "take 4 GB of memory": "import mmap; mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE)",
}
"""Each raises where it is held, and goes on to the end where it is not."""

IN_A_CGROUP: Final = "limited by a cgroup"
ADDED_UP: Final = "added up by the host about 30 times a second"
# Any other exception means that the attack itself is broken, which proves nothing.
_REFUSALS: Final = frozenset({"PermissionError", "FileNotFoundError", "ProcessLookupError", "OSError", "MemoryError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one layer or attack."""

    name: str
    ok: bool
    detail: str
    """How the attack failed, or why the layer is not available."""

    @property
    def is_tried(self) -> bool:
        """Whether the attack ran: without a jail to run it in, none does."""
        return not self.detail.startswith(NOT_TRIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Findings on this machine, and whether they are sufficient."""

    kernel: str
    machine: str
    python: str
    user: int
    layers: tuple[Finding, ...]
    canaries: Mapping[str, tuple[Finding, ...]]
    """By tier: every attack, and whether it was held."""
    notes: Mapping[str, tuple[str, ...]]
    """By tier: what it cannot enforce here."""
    libraries: tuple[str, ...]
    """Modules that programs can import besides the standard library."""
    library_sets: Mapping[str, str] = field(default_factory=dict)
    """By the name of each set in the config: its state, and its packages."""
    host_libraries: bool
    """Whether the config gives them all that is installed here besides."""
    bash: tuple[Finding, ...] = ()
    """Attacks from the sandbox of bash programs; empty where none can run."""
    bash_refusal: str
    """Why no bash program can run here, and what to install; empty if they can."""
    bash_memory: str = ""
    """Mechanism that limits the memory of a bash program; empty where none can run."""
    cgroup_refusal: str = ""
    """Why that is not a cgroup."""
    wasm: tuple[Finding, ...] = ()
    """Whether the wasm engine can run programs here, and what holds around its workers."""
    tier: TierName
    """The strongest that holds."""
    required: Isolation
    ok: bool


def _user() -> int:
    return os.geteuid() if sys.platform != "win32" else -1  # which has no numbers for them


async def examine(required: Isolation = "namespace", *, host_libraries: bool = False) -> Diagnosis:
    """Try every layer, run every attack in both tiers, and compare with what is `required`."""
    tiers = (LANDLOCK, NAMESPACE)
    reports = await asyncio.gather(*(_attack_tier(tier, host_libraries=host_libraries) for tier in tiers))
    bash, bash_refusal = await _examine_bash(reports[-1])
    cgroup_refusal = bash.cgroup_refusal
    proven = {layer for tier, report in zip(tiers, reports, strict=True) if report.locked for layer in tier.layers}
    layers = await asyncio.gather(*(_layer(layer, proven) for layer in LAYERS))
    reached: TierName = "none"
    for tier, report in zip(tiers, reports, strict=True):
        if all(finding.ok for finding in report.findings):
            reached = tier.name
    return Diagnosis(
        kernel=platform.release(), machine=platform.machine(), python=platform.python_version(), user=_user(),
        layers=tuple(layers),
        canaries={tier.name: report.findings for tier, report in zip(tiers, reports, strict=True)},
        notes={tier.name: report.notes for tier, report in zip(tiers, reports, strict=True)},
        libraries=tuple(jail_layout.library_modules()), host_libraries=host_libraries, tier=reached, required=required,
        ok=_STRENGTH[reached] >= _STRENGTH.get(required, 0), bash=bash.findings, bash_refusal=bash_refusal,
        bash_memory="" if bash_refusal else ADDED_UP if cgroup_refusal else IN_A_CGROUP, cgroup_refusal=cgroup_refusal,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _TierReport:
    """Findings of the attacks in one tier."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    locked: bool = False
    """A guest was locked with every layer of the tier."""
    cgroup_refusal: str = ""


_NOTHING: Final = _TierReport(findings=())


async def _examine_bash(report: _TierReport) -> tuple[_TierReport, str]:
    """The attacks from a sandbox with commands, in which starting processes is none."""
    if not report.locked:
        return _NOTHING, "bash programs need the isolation level namespace, which is not available here"
    if reason := shell_commands.refusal():
        return _NOTHING, reason
    plan = LaunchPlan(tier=NAMESPACE, loop_module=PROBE, profile="shell")
    attacks = {name: text for name, text in ATTACKS.items() if name not in ("fork", "exec")}
    found = await _attack_jail(plan, attacks)
    broken = next((finding.detail for finding in found.findings if not finding.is_tried), "")
    return (_NOTHING, f"the sandbox of bash programs does not start: {broken}") if broken else (found, "")


async def _try_cgroup(zygote: Zygote) -> str:
    """Why no cgroup ends a guest that takes too much memory; empty if one did."""
    refusal = zygote.cgroups.refusal if zygote.cgroups is not None else ""
    if refusal or zygote.cgroups is None:
        return refusal
    guest = zygote.spawn(replace(Limits(), memory_bytes=16 * MIB))
    try:
        async with asyncio.timeout(ATTACK_SECONDS):
            await guest.ready
            await run_in_probe(guest, "bytearray(64 << 20)", {})
    except (EngineError, OSError):  # the guest ended
        pass
    finally:
        guest.close()
    is_full = guest.cgroup is not None and guest.cgroup.is_full()
    return "" if is_full else "a cgroup did not end a program over its memory"


async def _layer(layer: Layer, proven: Container[Layer]) -> Finding:
    """A guest that was locked with all layers of a tier proves each; otherwise the layer is tried alone."""
    return Finding(name=layer, ok=True, detail="") if layer in proven else await _try_layer(layer)


async def _try_layer(layer: Layer) -> Finding:
    # With what the layer itself stands on.
    needed: set[Layer] = {layer, "user"} if layer in NAMESPACES else {layer}
    tier = Tier("namespace" if layer in NAMESPACES else "landlock", frozenset(needed))
    plan = LaunchPlan(tier=tier, loop_module=PROBE, modules=(), runs_programs=False)
    try:
        async with _jail(plan) as zygote, _guest(zygote):
            return Finding(name=layer, ok=True, detail="")
    except (EngineError, TimeoutError) as error:
        return Finding(name=layer, ok=False, detail=_reason(error))


async def _attack_tier(tier: Tier, *, host_libraries: bool = False) -> _TierReport:
    return await _attack_jail(LaunchPlan(tier=tier, loop_module=PROBE, host_libraries=host_libraries), ATTACKS)


async def _attack_jail(plan: LaunchPlan, attacks: Mapping[str, str]) -> _TierReport:
    """Every attack at once, each in its own guest of one jail."""
    try:
        async with _jail(plan) as zygote:
            async with _guest(zygote):
                pass
            with _targets() as names:
                findings = await asyncio.gather(*(_attack(zygote, *attack, names) for attack in attacks.items()))
            cgroup_refusal = await _try_cgroup(zygote)
            return _TierReport(
                findings=tuple(findings), notes=zygote.notes, locked=True, cgroup_refusal=cgroup_refusal
            )  # fmt: skip
    except (EngineError, TimeoutError) as error:
        detail = f"{NOT_TRIED}{_reason(error)}"
        return _TierReport(findings=tuple(Finding(name=name, ok=False, detail=detail) for name in attacks))


async def _attack(zygote: Zygote, name: str, text: str, names: Mapping[str, Any]) -> Finding:
    try:
        async with asyncio.timeout(ATTACK_SECONDS), _guest(zygote) as guest:
            answer = await run_in_probe(guest, text, names)
    except (EngineError, OSError) as error:  # OSError: also the timeout, and the guest's end
        return Finding(name=name, ok=False, detail=f"no answer from the jail ({_reason(error)})")
    refusal = answer.get("error", "").split(":")[0]
    if refusal in _REFUSALS:
        return Finding(name=name, ok=True, detail=refusal)
    return Finding(name=name, ok=False, detail=refusal or "leaked: the attack succeeded")


@contextlib.asynccontextmanager
async def _jail(plan: LaunchPlan) -> AsyncIterator[Zygote]:
    zygote = await Zygote.start(plan)
    try:
        yield zygote
    finally:
        await zygote.close()


@contextlib.asynccontextmanager
async def _guest(zygote: Zygote) -> AsyncIterator[Guest]:
    guest = zygote.spawn()
    try:
        await asyncio.wait_for(guest.ready, ATTACK_SECONDS)
        yield guest
    finally:
        guest.close()


async def run_in_probe(guest: Guest, text: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """What a guest with the `PROBE` loop answers to one text; `ConnectionError` when it ends instead."""
    loop = asyncio.get_running_loop()
    order = json.dumps({"text": text, "names": dict(names)}).encode()
    await loop.sock_sendall(guest.sock, HEADER.pack(len(order)) + order)
    received = b""
    while len(received) < HEADER.size or len(received) < HEADER.size + HEADER.unpack_from(received)[0]:
        part = await loop.sock_recv(guest.sock, 1 << 16)
        if not part or len(received) > 1 << 20:
            raise ConnectionError("the guest ended")
        received += part
    answer: dict[str, Any] = json.loads(received[HEADER.size :])
    return answer


@contextlib.contextmanager
def _targets() -> Iterator[dict[str, Any]]:
    """Things on the host that anyone could reach who is not held."""
    with (
        tempfile.TemporaryDirectory(prefix="toolfold-doctor-") as folder,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        os.chmod(folder, 0o755)  # noqa: S103  # in reach of anyone is what it is for
        host_file, unix_socket = f"{folder}/file", f"{folder}/socket"
        with open(host_file, "w", encoding="ascii") as file:
            file.write("secret")
        os.chmod(host_file, 0o666)  # noqa: S103  # in reach of anyone is what it is for
        unix.bind(unix_socket)
        os.chmod(unix_socket, 0o777)  # noqa: S103  # in reach of anyone is what it is for
        unix.listen()
        yield {
            "host_file": host_file, "unix_socket": unix_socket, "port": tcp.getsockname()[1], "host_pid": os.getpid(),
        }  # fmt: skip


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).removeprefix("cannot isolate here: ")
