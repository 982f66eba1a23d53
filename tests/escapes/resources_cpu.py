"""Computes for ever."""

STOPPED_BY = {"rlimits"}
LIMITS = {"cpu_seconds": 1}
WALL_SECONDS = 8.0

import signal, time

signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while time.process_time() < (1.3 if IS_CONTROL else 1000):
    sum(range(10_000))
print("REACHED")
