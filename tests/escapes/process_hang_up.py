"""Closes its connection and lives on, with nobody to stop it."""

STOPPED_BY = {"protocol"}
WITNESS = "is_alive or error"

import time

os.close(3)
time.sleep(1000)
