from pathlib import Path

import pytest

from toolfold.interfaces.cli.load_tools import load_tools


def names(*sources: str) -> list[str]:
    return [tool.spec.name for tool in load_tools(sources)]


def test_decorated_tools_are_taken_and_plain_functions_beside_them_are_not(folder: Path) -> None:
    Path("mixed.py").write_text("import toolfold\n@toolfold.tool\ndef a(): ...\ndef b(): ...\nalso_a = a\n")

    assert names("mixed.py") == ["a"]


def test_without_a_decorated_tool_the_public_functions_of_the_file_are_taken(folder: Path) -> None:
    Path("plain.py").write_text(
        "from os.path import join\ndef a(): ...\nasync def b(): ...\ndef _c(): ...\nclass D: ...\n"
    )

    assert names("plain.py") == ["a", "b"]


def test_a_file_may_import_its_neighbours_and_two_files_may_have_one_name(folder: Path) -> None:
    for one in ("x", "y"):
        (folder / one).mkdir()
        (folder / one / f"neighbour_{one}.py").write_text(f"NAME = '{one}'")
        (folder / one / "tools.py").write_text(
            f"from neighbour_{one} import NAME\ndef of_{one}() -> str:\n    return NAME\n"
        )

    assert names("x/tools.py", str(folder / "y" / "tools.py")) == ["of_x", "of_y"]


def test_a_module_is_found_from_the_folder_one_stands_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("company_pkg").mkdir()
    Path("company_pkg/hr.py").write_text(
        "from __future__ import annotations\ndef people(team: str) -> list[str]: ...\n"
    )

    assert names("company_pkg.hr") == ["people"]
