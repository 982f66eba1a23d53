"""Some of the attacks on each run of the tests; all of them, with what they cost in time, by `make test NAME=hold`."""

import ast
from pathlib import Path

import pytest

from tests.escapes_support.attack import load_attacks
from tests.hold import switched_off
from tests.hold.escapes import escape_names
from tests.hold.measure import attack_names, attack_of, measure
from tests.hold.switched_off import CONTROLS


@pytest.mark.long
@pytest.mark.parametrize("name", ["bodies_without_a_key", "idle_connections", "unread_downloads"])
def test_the_host_holds(name: str) -> None:
    assert measure(name, seconds=4, programs=5).broken == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["failing_tool", "secrets_in_errors", "two_ends", "web_pages"])
def test_without_what_holds_it_the_host_does_not(name: str) -> None:
    assert measure(name, seconds=30, programs=1, is_control=True).broken != []


def test_every_attack_says_what_it_is_and_has_its_control() -> None:
    modules = {name: attack_of(name) for name in attack_names()}

    assert {
        name: bool(module.__doc__) and callable(module.attack) for name, module in modules.items()
    } == dict.fromkeys(modules, True)
    assert {type(module.ITEM) for module in modules.values()} == {int}
    assert {name: bool(switch_off.__doc__) for name, switch_off in CONTROLS.items()} == dict.fromkeys(modules, True)


def test_every_escape_in_the_table_is_in_the_corpus() -> None:
    assert set(escape_names()) <= {attack.name for attack in load_attacks()}


def test_controls_replace_only_what_is_there() -> None:
    tree = ast.parse(Path(switched_off.__file__).read_text("utf-8"))
    targets = [target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]
    replaced = [
        (ast.unparse(target.value), target.attr)
        for target in targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value).partition(".")[0] in vars(switched_off)
    ]

    # Where a name has changed, the assignment would make a new one, and the control would switch nothing off.
    gone = [f"{owner}.{name}" for owner, name in replaced if not hasattr(eval(owner, vars(switched_off)), name)]
    assert (len(replaced) > 10, gone) == (True, [])
