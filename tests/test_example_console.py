"""The console's demo, started and stopped as a user would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.long
def test_sigterm_ends_the_demo_with_all_that_it_started(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "console", tmp_path / "examples" / "console")
    demo = subprocess.Popen(
        [sys.executable, "-m", "examples.console", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert demo.stderr is not None
    first = demo.stderr.readline()
    link = demo.stderr.readline()
    demo.terminate()
    _, rest = demo.communicate()

    assert first == "starting a console and programs to watch in it\n"
    assert link.startswith("toolfold: console at http://127.0.0.1:")
    assert rest.endswith("\nstopped\n")
    assert demo.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(demo.pid, 0)
