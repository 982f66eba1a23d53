"""What is mounted on this machine, as far as it is this test's."""

import tempfile
from pathlib import Path

_SHARED_TEMP = Path(tempfile.gettempdir()).resolve()
"""Before a test has set a folder of its own."""


def mounts(own: Path) -> list[str]:
    """Lines of `mountinfo`, without the disks that other tests have in the temporary folder while this one runs."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if _is_ours(line, own.resolve())]


def _is_ours(line: str, own: Path) -> bool:
    point = Path(line.split()[4])
    return point.is_relative_to(own) or not point.is_relative_to(_SHARED_TEMP)
