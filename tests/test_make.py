"""What `make` would do for a newcomer, without doing it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_demos_install_what_they_need_and_no_more(tmp_path: Path) -> None:
    command = ["make", "--dry-run", "--no-print-directory", f"VENV={tmp_path / 'venv'}"]
    demo, console = (
        subprocess.run([*command, goal], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for goal in ("demo", "demo-console")
    )

    assert ["-r requirements/dev.txt" in text for text in (demo, console)] == [False, False]
    assert ["--editable '.[http]'" in text for text in (demo, console)] == [False, True]
