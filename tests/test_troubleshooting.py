"""Every message in docs/troubleshooting.md is one that the code can raise."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MESSAGES = re.findall(r"^### `(.+)`$", (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
# Strings that Python joins, adjacent or with `+`, are one text in a message, too.
JOINT = re.compile(r"""["']\s*\+?\s*\(?f?["']""")
SOURCES = {path: JOINT.sub("", path.read_text(encoding="utf-8")) for path in (ROOT / "src").rglob("*.py")}


def places(message: str) -> list[Path]:
    """Files with all fixed parts of a message in order, with a replacement field for each `…`."""
    fixed = [re.escape(part.strip()) for part in message.split("…") if part.strip(" :;?")]
    pattern = re.compile(r"[^\n]*".join(fixed))
    return [path for path, text in SOURCES.items() if pattern.search(text)]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_in_troubleshooting_is_one_that_the_code_raises(message: str) -> None:
    assert places(message)


def test_a_message_that_no_code_raises_is_noticed() -> None:
    assert len(MESSAGES) > 15
    assert not places("the flux … was never aligned")
