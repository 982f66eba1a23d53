"""Computes for ever."""

STOPPED_BY = {"rlimits"}
LIMITS = {"cpu_seconds": 1}
WITNESS = "status == 'timeout'"

import signal, threading

signal.signal(signal.SIGXCPU, signal.SIG_IGN)
for _ in range(2):  # two processors use up one second of CPU time before a second has gone by
    threading.Thread(target=lambda: [sum(range(10**7)) for _ in range(10**6)], daemon=True).start()
import zlib

while True:
    zlib.compress(bytes(1 << 20))
