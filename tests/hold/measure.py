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
from tests.hold.honest import Told, run_programs, some, within
from tests.hold.host import Host

FACTOR, LEAST_SECONDS = 5, 0.25
"""The honest client's p95 under attack: at most the larger of so many times that alone, and so long."""
MOST_BYTES = 1_000_000_000
MOST_SECONDS_TO_END = 5.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Held:
    """What became of one attack."""

    name: str
    alone: Told
    under: Told
    grown_bytes: int
    seconds_to_end: float
    log_bytes: int
    has_reached: bool
    """The attack ended by itself: it got what it came for, or could not go on."""

    @property
    def is_prompt(self) -> bool:
        return self.under.p95 <= max(FACTOR * self.alone.p95, LEAST_SECONDS)

    @property
    def broken(self) -> list[str]:
        """Every promise that did not hold, in words; but for time, which a busy machine takes from everyone."""
        return [
            text
            for text, is_broken in (
                (f"{len(self.under.failures)} honest failures: {self.under.failures[:1]}", bool(self.under.failures)),
                ("the attack reached its aim", self.has_reached),
                (f"grown by {self.grown_bytes} bytes", self.grown_bytes > MOST_BYTES),
                (f"SIGTERM unanswered for {self.seconds_to_end:.1f} s", self.seconds_to_end > MOST_SECONDS_TO_END),
                (f"a log of {self.log_bytes} bytes", self.log_bytes > 1_000_000),
            )
            if is_broken
        ]


def attack_names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(attacks.__path__))


# Any: a module with the names that all of them have.
def attack_of(name: str) -> Any:
    return importlib.import_module(f"tests.hold.attacks.{name}")


def measure(name: str, *, seconds: float, programs: int = 40, is_control: bool = False) -> Held:
    """Run one attack after so many programs without it; as a control, with what holds it switched off."""
    module = attack_of(name)
    http = module.CONTROL or "" if is_control else getattr(module, "HTTP", "")
    options = {"is_open": getattr(module, "IS_OPEN", False), "servers": getattr(module, "SERVERS", ())}
    with tempfile.TemporaryDirectory() as folder, Host(Path(folder), http, **options) as host:
        run_programs(host.url, some(5))  # the first ones warm it up
        alone = run_programs(host.url, some(programs))
        host.idle_bytes = host.memory_bytes
        with attacking(name, host.url) as attacker:
            under = run_programs(host.url, within(seconds, at_least=20))
            reached = attacker.poll() is not None
            to_end = host.seconds_to_end(most=4 * MOST_SECONDS_TO_END)
        log = host.log.stat().st_size
        return Held(
            name=name,
            alone=alone,
            under=under,
            grown_bytes=host.grown_bytes,
            seconds_to_end=to_end,
            log_bytes=log,
            has_reached=reached,
        )


@contextmanager
def attacking(name: str, url: str) -> Iterator["subprocess.Popen[str]"]:
    """The attack in a process of its own, which has begun."""
    command = [sys.executable, "-m", "tests.hold.attacker", name, url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "attacking\n"
        yield process
    finally:
        process.kill()
        process.communicate()
