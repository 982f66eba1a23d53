"""One attack, measured: an honest client alone and beside it, the host's memory, its answer to SIGTERM."""

import importlib
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hold import attacks
from tests.hold.honest import PROGRAM, Told, run_programs, some, unless, within
from tests.hold.host import ROOT, Host

FACTOR, LEAST_SECONDS = 5, 0.25
"""The honest client's p95 under attack: at most the larger of so many times that alone, and so long."""
MOST_BYTES = 1_000_000_000
MOST_SECONDS_TO_END = 5.0
_GIVE_UP_SECONDS = 60.0
NICENESS = 10
"""Of an attack: it would come from another machine, and what is measured is the server, not who gets a processor. A
control does not measure, so it is not put back."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What became of one attack."""

    name: str
    alone: Told
    under: Told
    grown_bytes: int
    seconds_to_end: float
    log_bytes: int
    is_control: bool
    has_reached: bool
    """The attack ended by itself: it got what it came for, or could not go on."""

    @property
    def late(self) -> list[str]:
        """Every promise about time that did not hold, in words; a busy machine breaks them by itself."""
        return [
            text
            for text, is_broken in (
                ("the honest client waits too long", self.under.p95 > most_seconds(self.alone)),
                (f"SIGTERM unanswered for {self.seconds_to_end:.1f} s", self.seconds_to_end > MOST_SECONDS_TO_END),
            )
            if is_broken
        ]

    @property
    def broken(self) -> list[str]:
        """Every other promise that did not hold, in words."""
        return [
            text
            for text, is_broken in (
                (f"{len(self.under.failures)} honest failures: {self.under.failures[:1]}", bool(self.under.failures)),
                ("the attack reached its aim", self.has_reached),
                (f"grown by {self.grown_bytes} bytes", self.grown_bytes > MOST_BYTES),
                ("SIGTERM unanswered", self.seconds_to_end >= _GIVE_UP_SECONDS),
                (f"a log of {self.log_bytes} bytes", self.log_bytes > 1_000_000),
            )
            if is_broken
        ]


def most_seconds(alone: Told) -> float:
    """That the honest client may wait."""
    return max(FACTOR * alone.p95, LEAST_SECONDS)


def _is_far_too_late(alone: Told, under: Told) -> bool:
    """Of a host that does not hold no more need be seen; some requests would not be answered at all."""
    return len(under.seconds) >= 5 and under.p95 > 2 * most_seconds(alone)


def attack_names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(attacks.__path__))


# Any: a module with the names that all of them have.
def attack_of(name: str) -> Any:
    return importlib.import_module(f"tests.hold.attacks.{name}")


def measure(name: str, *, seconds: float, programs: int = 30, is_control: bool = False) -> Held:
    """Run one attack after so many programs without it; as a control, with what holds it switched off."""
    module = attack_of(name)
    code = getattr(module, "HONEST", PROGRAM)
    with tempfile.TemporaryDirectory() as folder, _host(module, folder, name if is_control else "") as host:
        run_programs(host.url, some(5), code)  # the first ones warm it up
        alone = run_programs(host.url, some(programs), code)
        host.idle_bytes = host.peak_bytes = host.memory_bytes
        with attacking(name, host.url, niceness=0 if is_control else NICENESS) as attacker:

            def is_broken(told: Told) -> bool:
                return bool(told.failures) or attacker.poll() is not None or _is_far_too_late(alone, told)

            goes_on = unless(is_broken, 3 * seconds) if is_control else within(seconds, at_least=20)
            under = run_programs(host.url, goes_on, code, patience_seconds=10 if is_control else 60)
            reached = attacker.poll() is not None
            to_end = host.seconds_to_end(most=4 * MOST_SECONDS_TO_END if is_control else _GIVE_UP_SECONDS)
        log = host.log.stat().st_size
        return Held(
            name=name,
            alone=alone,
            under=under,
            grown_bytes=host.grown_bytes,
            seconds_to_end=to_end,
            log_bytes=log,
            is_control=is_control,
            has_reached=reached,
        )


# Any: as above.
def _host(module: Any, folder: str, without: str) -> Host:
    return Host(
        Path(folder),
        getattr(module, "HTTP", ""),
        is_open=getattr(module, "IS_OPEN", False),
        servers=getattr(module, "SERVERS", ()),
        config=getattr(module, "CONFIG", ""),
        tools=getattr(module, "TOOLS", ""),
        files=getattr(module, "FILES", {}),
        counts_guests=getattr(module, "COUNTS_GUESTS", False),
        options=getattr(module, "OPTIONS", ()),
        without=without,
    )


@contextmanager
def attacking(name: str, url: str, niceness: int = NICENESS) -> Iterator["subprocess.Popen[str]"]:
    """The attack in a process of its own, which has begun."""
    command = [sys.executable, "-m", "tests.hold.attacker", name, url, str(niceness)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "attacking\n"
        yield process
    finally:
        process.kill()
        process.communicate()
