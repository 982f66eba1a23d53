import gc
import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from toolfold import File, UsageError
from toolfold.interfaces.cli.outcome_output import prepare_folder, save_files


def file(name: str, data: bytes = b"new") -> File:
    return File(name=name, data=data)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_are_written_beneath_the_folder_and_replace_older_ones(tmp_path: Path) -> None:
    (tmp_path / "plot.png").write_bytes(b"old")

    complaints = save_files([file("plot.png"), file("tables/may/a b.csv", b"1")], tmp_path)

    assert complaints == []
    assert tree(tmp_path) == {"plot.png": b"new", "tables/may/a b.csv": b"1"}


def test_a_name_that_leads_out_of_the_folder_is_left_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    names = ["../x", "/etc/x", "a/../../x", "a//b", "", ".", "..", "a/", "x\n\x1b[2J", "nul\0", "ok"]

    complaints = save_files([file(name) for name in names], out)

    assert complaints == snapshot(
        [
            "file '../x' was not written: its name points outside the folder",
            "file '/etc/x' was not written: its name points outside the folder",
            "file 'a/../../x' was not written: its name points outside the folder",
            "file 'a//b' was not written: its name points outside the folder",
            "file '' was not written: its name points outside the folder",
            "file '.' was not written: its name points outside the folder",
            "file '..' was not written: its name points outside the folder",
            "file 'a/' was not written: its name points outside the folder",
            "file 'x\\n\\x1b[2J' was not written: its name contains a control character",
            "file 'nul\\x00' was not written: its name contains a control character",
        ]
    )
    assert tree(tmp_path) == {"out/ok": b"new"}


def test_a_link_in_the_folder_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / "out/report.txt").symlink_to(tmp_path / "victim")

    complaints = save_files([file("report.txt")], tmp_path / "out")

    assert complaints == []
    assert tree(tmp_path) == {"victim": b"mine", "out/report.txt": b"new"}
    assert not (tmp_path / "out/report.txt").is_symlink()


def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/sub").symlink_to(tmp_path / "elsewhere")

    complaints = save_files([file("sub/x")], tmp_path / "out")

    assert complaints == snapshot(["file 'sub/x' was not written: a link or a file has the name of its folder"])
    assert tree(tmp_path) == {}


def test_a_file_where_a_folder_stands_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()

    complaints = save_files([file("taken"), file("x" * 300)], tmp_path)

    assert complaints == [
        "file 'taken' was not written: Is a directory",
        f"file '{'x' * 300}' was not written: File name too long",
    ]
    assert os.listdir(tmp_path) == ["taken"]


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    gc.collect()  # what earlier tests dropped holds descriptors until it is collected, which may be at any moment
    before = len(os.listdir("/proc/self/fd"))

    save_files([file("a/b/c"), file("../x"), file("a/b/c/d")], tmp_path)

    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_cannot_be_made_is_named_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("")

    for name in ("taken", "taken/sub"):
        with pytest.raises(UsageError) as caught:
            prepare_folder(Path(name))
        assert str(caught.value) == f"--out {name!r} is not a folder; name another"

    prepare_folder(Path("new/deep"))
    assert Path("new/deep").is_dir()
