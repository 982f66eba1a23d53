"""200 hostile connections of one tenant beside an honest client, for minutes: nothing fails, nothing is left behind."""

import tempfile
import time
from pathlib import Path

from tests.hold.honest import run_programs, some, within
from tests.hold.host import Host
from tests.hold.measure import attacking

MOST_P95_SECONDS = 1.0
_SETTLE_SECONDS = 240.0
"""Programs that still wait for their tenant's turn run first, though nobody reads their answers."""
_SPARE_DESCRIPTORS = 10


def soak(seconds: float) -> int:
    """Prints one line; 1 if a promise broke."""
    with tempfile.TemporaryDirectory() as folder, Host(Path(folder)) as host:
        run_programs(host.url, some(5))
        before = host.descriptors
        with attacking("mixed_connections", host.url):
            told = run_programs(host.url, within(seconds, at_least=20))
        after = _settled(host, before)
        broken = [
            *([f"{len(told.failures)} honest failures: {told.failures[:1]}"] if told.failures else []),
            *(["the honest client waits too long"] if told.p95 > MOST_P95_SECONDS else []),
            *([f"{after} descriptors, {before} before"] if after > before + _SPARE_DESCRIPTORS else []),
        ]
        figures = (
            f"{len(told.seconds)} programs, p95 {told.p95 * 1000:.0f} ms, grown by {host.grown_bytes / 1e6:.0f} MB"
        )
        print(f"soak of {seconds:g} s: {figures}, descriptors {before} to {after}: {'; '.join(broken) or 'held'}")
        return int(bool(broken))


def _settled(host: Host, before: int) -> int:
    """Descriptors once they are back, or when there was time enough."""
    until = time.monotonic() + _SETTLE_SECONDS
    while host.descriptors > before + _SPARE_DESCRIPTORS and time.monotonic() < until:
        time.sleep(0.2)
    return host.descriptors
