"""The raw server, which starts once a file is there: `python gated_server.py FILE ...`."""

import runpy
import sys
import time
from pathlib import Path

gate = Path(sys.argv.pop(1))
while not gate.exists():
    time.sleep(0.01)
runpy.run_path(str(Path(__file__).with_name("raw_server.py")), run_name="__main__")
