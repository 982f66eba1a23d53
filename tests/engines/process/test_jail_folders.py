"""Removing what a program left, whatever it left."""

import os
from pathlib import Path

from toolfold_guest.shared.folder_removal import remove_tree


def test_a_tree_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("down", dir_fd=here)
        below = os.open("down", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    remove_tree(os.fspath(top))

    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(kept)
    os.mkfifo(top / "fifo")
    (top / "closed").mkdir(mode=0)

    remove_tree(os.fspath(top))

    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "file"]


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove_tree(os.fspath(tmp_path / "gone"))
