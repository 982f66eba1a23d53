"""200 hostile connections of one tenant beside an honest client, for minutes: nothing fails, nothing is left behind."""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hold.honest import Told, run_programs, some, within
from tests.hold.host import Host
from tests.hold.measure import attacking

MOST_P95_SECONDS = 1.0
_SETTLE_SECONDS = 60.0
"""A body that stands still is waited for half of this; programs that wait for their turn leave with their clients."""
_LEAST_SAMPLES = 2
"""In each third of the time."""
_SPARE_MEGABYTES = 1.0
_SPARE_DESCRIPTORS = 10
_SPARE_PROCESSES = 2
"""Guests that are made ahead may be one or two more or less."""


def soak(seconds: float) -> int:
    """Prints one line; 1 if a promise broke."""
    with tempfile.TemporaryDirectory() as folder, Host(Path(folder)) as host:
        run_programs(host.url, some(5))
        before = (host.descriptors, host.processes)
        with attacking("mixed_connections", host.url), _watched(host) as samples:
            told = run_programs(host.url, within(seconds, at_least=20))
        after = _settled(host, before)
        broken = [*_broken(told, before, after), *_rise(samples)]
        took = f"p95 {told.p95 * 1000:.0f} ms, at most {max(told.seconds) * 1000:.0f} ms"
        left = f"descriptors {before[0]} to {after[0]}, processes {before[1]} to {after[1]}"
        grown = f"grown by {host.grown_bytes / 1e6:.0f} MB"
        load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
        figures = f"{len(told.seconds)} programs, {took}, {grown}, {left}, {load}"
        print(f"soak of {seconds:g} s: {figures}: {'; '.join(broken) or 'held'}")
        return int(bool(broken))


@contextmanager
def _watched(host: Host) -> Iterator[list[float]]:
    """The server's memory in megabytes at each minute, printed as it is read."""
    samples: list[float] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(60):
            samples.append(host.memory_bytes / 1e6)
            print(f"  minute {len(samples)}: {samples[-1]:.1f} MB", flush=True)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def _rise(samples: list[float]) -> list[str]:
    """Whether the last third needed more than the one before it; prints the verdict."""
    third = len(samples) // 3
    if third < _LEAST_SAMPLES:
        print(f"  memory: {len(samples)} minutes are too few to say whether it is flat")
        return []
    middle, last = max(samples[-2 * third : -third]), max(samples[-third:])
    verdict = "ended flat" if last <= middle + _SPARE_MEGABYTES else "still rises"
    print(f"  memory: at most {middle:.1f} MB in the second third, {last:.1f} MB in the last: {verdict}")
    return [] if verdict == "ended flat" else [f"memory {verdict}"]


def _broken(told: Told, before: tuple[int, int], after: tuple[int, int]) -> list[str]:
    return [
        *([f"{len(told.failures)} honest failures: {told.failures[:1]}"] if told.failures else []),
        *(["the honest client waits too long"] if told.p95 > MOST_P95_SECONDS else []),
        *([] if _is_back(before, after) else ["something is left behind"]),
    ]


def _settled(host: Host, before: tuple[int, int]) -> tuple[int, int]:
    """Descriptors and processes once they are back, or when there was time enough."""
    until = time.monotonic() + _SETTLE_SECONDS
    while not _is_back(before, (host.descriptors, host.processes)) and time.monotonic() < until:
        time.sleep(0.2)
    return host.descriptors, host.processes


def _is_back(before: tuple[int, int], after: tuple[int, int]) -> bool:
    return after[0] <= before[0] + _SPARE_DESCRIPTORS and after[1] <= before[1] + _SPARE_PROCESSES
