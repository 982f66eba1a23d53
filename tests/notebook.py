"""`examples/notebook.ipynb`, executed by nbconvert with a real kernel: `python -m tests.notebook PYTHON`.

PYTHON is the one that has nbconvert and ipykernel. Its kernel finds toolfold and its libraries where this Python has them.
"""

import json
import os
import site
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def executed(python: str, folder: Path) -> dict[str, str]:
    """The HTML that each cell shows, by the cell's id."""
    paths = [str(ROOT / "src"), *site.getsitepackages()]
    subprocess.run(
        [python, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", str(folder), str(NOTEBOOK)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JUPYTER_PREFER_ENV_PATH": "1"},
        stderr=subprocess.PIPE,
    )
    cells = json.loads((folder / NOTEBOOK.name).read_text(encoding="utf-8"))["cells"]
    return {
        cell["id"]: "".join("".join(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", ()))
        for cell in cells
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        shown = executed(sys.argv[1], Path(name))
    wanted = {
        "sync": ["finished", "12 calls", "best month: 184.0", 'src="data:image/png;base64,', "sales</td>"],
        "await": ["finished", "2 calls", "221.0"],
        "wrong": ["rejected", "did you mean &#x27;sales&#x27;?"],
    }
    missing = [(cell, text) for cell, texts in wanted.items() for text in texts if text not in shown[cell]]
    print(f"notebook: {len(shown)} cells executed, {len(missing)} of what they should show is missing {missing or ''}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
