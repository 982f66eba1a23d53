"""Programs saved in a workspace that a model's tools can write to."""

from pathlib import Path

import pytest

from toolfold.errors import UsageError
from toolfold.interfaces.callback.child_programs import save_program


def test_a_program_is_saved_and_replaced_under_its_name(tmp_path: Path) -> None:
    first = save_program("1", "report", tmp_path)
    again = save_program("2", "report.py", tmp_path)

    assert first == again == ".python_tmp/report.py"
    assert [path.name for path in (tmp_path / ".python_tmp").iterdir()] == ["report.py"]
    assert (tmp_path / first).read_text() == "2"


@pytest.mark.parametrize("name", ["../x.py", "/etc/x.py", "a/b.py", "..", "", ".", "a\nb.py", "a\\b.py", "x/"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        save_program("1", name, tmp_path)

    assert str(caught.value) == (
        f"filename {name!r} is not a plain file name; give one without folders, like 'report.py'"
    )
    assert list(tmp_path.rglob("*.py")) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.py").write_text("untouched")
    linked, beside = tmp_path / "linked", tmp_path / "beside"
    linked.mkdir()
    (linked / ".python_tmp").symlink_to(elsewhere)
    (beside / ".python_tmp").mkdir(parents=True)
    (beside / ".python_tmp" / "x.py").symlink_to(elsewhere / "x.py")

    with pytest.raises(UsageError):
        save_program("1", "x.py", linked)
    save_program("1", "x.py", beside)

    assert (elsewhere / "x.py").read_text() == "untouched"
    assert (beside / ".python_tmp" / "x.py").read_text() == "1"


def test_nothing_is_left_of_a_program_that_cannot_be_saved(tmp_path: Path) -> None:
    taken = tmp_path / ".python_tmp" / "x.py"
    taken.mkdir(parents=True)

    with pytest.raises(UsageError) as caught:
        save_program("1", "x.py", tmp_path)

    assert str(caught.value) == "filename 'x.py' cannot be written: Is a directory"
    assert list(taken.parent.iterdir()) == [taken]
