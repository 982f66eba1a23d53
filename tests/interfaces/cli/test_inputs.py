from pathlib import Path

import pytest
from inline_snapshot import snapshot

from toolfold import File, Limits, UsageError
from toolfold.interfaces.cli.program_inputs import limits_for, read_files, read_program


def test_a_program_is_read_as_it_is_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_bytes(b"\xef\xbb\xbfprint('\xc3\xa9')\n")

    assert read_program(str(tmp_path / "p.py"), Limits()) == "print('é')\n"


def test_no_more_of_a_huge_program_is_read_than_proves_it_too_large(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_bytes(b"#" * 100)

    assert read_program(str(tmp_path / "p.py"), Limits(program_bytes=10)) == "#" * 11


def test_a_wrong_program_path_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("latin.py").write_bytes(b"x = '\xe9'")

    said = {}
    for name in ("missing.py", "folder", "latin.py", "nul\0.py", "latin.py/x"):
        with pytest.raises(UsageError) as caught:
            read_program(name, Limits())
        said[name] = str(caught.value)

    assert said == snapshot(
        {
            "missing.py": "no program 'missing.py'; check the path",
            "folder": "program 'folder' is a folder; name a file in it",
            "latin.py": "program 'latin.py' is not UTF-8: byte 0xe9 at offset 5; save it as UTF-8",
            "nul\0.py": "program 'nul\\x00.py' cannot be read: embedded null byte",
            "latin.py/x": "program 'latin.py/x' cannot be read: Not a directory",
        }
    )


def test_files_keep_their_last_name_and_get_a_mime_type(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"a,b\n")
    (tmp_path / "blob").write_bytes(b"\0")

    files = read_files([tmp_path / "data.csv", tmp_path / "blob"], Limits())

    assert files == (
        File(name="data.csv", data=b"a,b\n", mime="text/csv"),
        File(name="blob", data=b"\0", mime="application/octet-stream"),
    )


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text("")

    with pytest.raises(UsageError) as caught:
        read_files([tmp_path / "a/x.csv", tmp_path / "b/x.csv"], Limits())

    assert str(caught.value) == snapshot("two files are named 'x.csv'; rename one, because they share the data folder")


def test_files_that_do_not_fit_together_are_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_bytes(b"1234")
    Path("b").write_bytes(b"5678")

    with pytest.raises(UsageError) as caught:
        read_files([Path("a"), Path("b")], Limits(data_bytes=7))

    assert str(caught.value) == snapshot("file 'b' does not fit: the data folder holds 7 bytes in total")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 86_401.0])
def test_a_timeout_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError) as caught:
        limits_for(seconds, as_json=True)

    assert str(caught.value) == f"timeout {seconds!r} is not between 0 and 86400 seconds"


def test_a_long_timeout_also_gives_the_time_to_compute() -> None:
    assert limits_for(600.5, as_json=True) == Limits(wall_seconds=600.5, cpu_seconds=601)


def test_output_for_a_pipe_may_be_longer_than_output_for_a_model() -> None:
    assert limits_for(None, as_json=True) == Limits()
    assert limits_for(None, as_json=False) == Limits(output_bytes=8 * 1024 * 1024)
