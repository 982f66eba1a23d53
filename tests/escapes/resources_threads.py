"""Starts hundreds of threads."""

STOPPED_BY = {"rlimits"}
LIMITS = {"threads": 32}

import threading

go = threading.Event()
threads = [threading.Thread(target=go.wait, daemon=True) for _ in range(70 if IS_CONTROL else 600)]
try:
    for thread in threads:
        thread.start()
    print("REACHED")
finally:
    go.set()
