"""Ignores and blocks every signal, to live on after its time."""

STOPPED_BY = {"protocol"}
WITNESS = "is_alive"

import signal, time

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        continue
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    time.sleep(1)
