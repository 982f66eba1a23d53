"""The hook that looks at commit messages; `make hooks` turns it on."""

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[1] / ".githooks" / "commit-msg"
BODY = "\n\nIt stayed behind, and held its memory.\n"


def answered(folder: Path, message: str) -> tuple[int, str]:
    (folder / "message").write_text(message, "utf-8")
    done = subprocess.run([HOOK, folder / "message"], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "message",
    [f"Kill the guest when a run is dropped{BODY}", f"{'K' * 72}{BODY}", "fixup! Kill the guest", "Merge branch 'x'"],
)
def test_a_message_by_the_rules_passes(tmp_path: Path, message: str) -> None:
    assert answered(tmp_path, message) == (0, "")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (f"{'K' * 73}{BODY}", "the first line has 73 characters; 72 is the limit"),
        (f"Kill the guest.{BODY}", "the first line ends in a full stop"),
        (f"fix: kill the guest{BODY}", "the first line begins with a prefix; write an imperative sentence"),
        (f"kill it{BODY}", "the first line is an imperative sentence: 'Kill the guest when a run is dropped'"),
        ("Kill the guest", "say in the body why the change is made"),
        ("Kill the guest\n\n# Changes to be committed\n", "say in the body why the change is made"),
    ],
)
def test_any_other_is_refused_with_the_reason(tmp_path: Path, message: str, told: str) -> None:
    assert answered(tmp_path, message) == (1, f"commit: {told}\n")
