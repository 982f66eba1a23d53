"""The honest client: one small program after another, each timed."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from tests.hold.host import KEYS

PROGRAM = "print(sum(range(10)))"
SECONDS_APART = 60 / 540
"""Between two starts. A tenant may make 600 a minute, and on a fast machine the client would run into that."""


@dataclass
class Told:
    """What the client saw."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.seconds, n=20)[-1] if len(self.seconds) > 1 else float("inf")


def run_programs(
    url: str, goes_on: Callable[[Told], bool], code: str = PROGRAM, *, patience_seconds: float = 60
) -> Told:
    """One after another at an honest pace, each over a connection of its own, as long as `goes_on` says."""
    told = Told()
    headers = {"X-API-Key": KEYS["honest"]}
    while goes_on(told):
        began = time.monotonic()
        try:
            with httpx.Client(base_url=url, headers=headers, timeout=patience_seconds, verify=False) as client:
                answer = client.post("/exec", json={"code": code, "lang": "py"})
            if answer.status_code != 200 or answer.json()["stdout"] != "45\n":
                told.failures.append(f"{answer.status_code} {answer.text[:200]}")
        except httpx.HTTPError as error:
            told.failures.append(repr(error))
        told.seconds.append(time.monotonic() - began)
        time.sleep(max(0.0, SECONDS_APART - told.seconds[-1]))
    return told


def some(count: int) -> Callable[[Told], bool]:
    """So many programs."""
    return lambda told: len(told.seconds) < count


def within(seconds: float, *, at_least: int) -> Callable[[Told], bool]:
    """As many as fit into a time, and not fewer than some."""
    until = time.monotonic() + seconds
    return lambda told: time.monotonic() < until or len(told.seconds) < at_least


def unless(is_over: Callable[[Told], bool], seconds: float) -> Callable[[Told], bool]:
    """As many as fit into a time, but none once it is over."""
    until = time.monotonic() + seconds
    return lambda told: not is_over(told) and time.monotonic() < until
