"""A disk of the test's own that can be full for a moment: a tmpfs, which only root may mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SIZE: Final = "2g"


class Disk:
    """A folder whose room can be taken away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> bool:
        """No byte more than what is there; false where that was missed, because it was written to just now."""
        facts = os.statvfs(self.folder)
        return _done(
            "mount", "-o", f"remount,size={(facts.f_blocks - facts.f_bfree) * facts.f_bsize}", str(self.folder)
        )

    def clear(self) -> None:
        assert _done("mount", "-o", f"remount,size={_SIZE}", str(self.folder))


@contextmanager
def own_disk(folder: Path) -> Iterator[Disk | None]:
    """`None` where none can be mounted; the folder is there all the same."""
    folder.mkdir()
    if not _done("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)):
        yield None
        return
    try:
        yield Disk(folder)
    finally:
        _done("umount", "--lazy", str(folder))


def _done(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
