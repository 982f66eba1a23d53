"""Tricks are taken out by names: one that is renamed must not go on being measured against itself."""

import ast
from pathlib import Path

import pytest

import toolfold_guest
from bench.pairs import ROUNDS
from bench.tricks import TRICKS, Trick, look_up_aliases
from toolfold_guest import stdlib_names

GUEST = Path(toolfold_guest.__file__).parent


@pytest.mark.parametrize("trick", [trick for trick in TRICKS if trick.without], ids=lambda trick: trick.name)
def test_what_a_trick_is_taken_out_by_is_there(trick: Trick) -> None:
    (statement,) = ast.parse(trick.without).body
    assert isinstance(statement, ast.Assign)
    (target,) = statement.targets
    owner, _, name = ast.unparse(target).rpartition(".")

    assert hasattr(getattr(trick.module, owner) if owner else trick.module, name)
    assert trick.case in ROUNDS
    assert trick.gains.endswith(".")


@pytest.mark.parametrize("path", sorted(GUEST.rglob("*.py")), ids=lambda path: path.name)
def test_the_guest_runs_without_aliases_too(path: Path) -> None:
    text = look_up_aliases(path.read_text("utf-8"))

    compile(text, path.name, "exec")
    assert "toolfold_guest.stdlib_names import" not in text


def test_every_alias_is_used() -> None:
    names = {name for name in vars(stdlib_names) if not name.startswith("_")} - set(_modules())
    used = {
        alias.name
        for path in GUEST.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "toolfold_guest.stdlib_names"
        for alias in node.names
    }

    assert used == names


def _modules() -> list[str]:
    body = ast.parse(Path(stdlib_names.__file__).read_text("utf-8")).body
    return [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
