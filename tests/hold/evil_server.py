"""A bridged server with one tool, whose schema doubles with each level; run by its path, in whatever folder."""

import json
import runpy
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

if __name__ == "__main__":
    sys.path.insert(0, str(TESTS.parent))
    from tests.hold.schemas import doubling

    sys.argv[1:] = ["--names", json.dumps(["wide"]), "--schema", json.dumps(doubling(30))]
    runpy.run_path(str(TESTS / "sources/mcp/raw_server.py"), run_name="__main__")
