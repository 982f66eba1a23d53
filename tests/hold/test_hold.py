"""Some of the attacks on each run of the tests; all of them, with what they cost in time, by `make test-hold`."""

import pytest

from tests.hold.measure import attack_names, attack_of, measure


@pytest.mark.long
@pytest.mark.parametrize("name", ["bodies_without_a_key", "idle_connections", "unread_downloads"])
def test_the_host_holds(name: str) -> None:
    assert measure(name, seconds=4, programs=5).broken == []


def test_every_attack_says_what_it_is_and_how_it_is_switched_off() -> None:
    modules = {name: attack_of(name) for name in attack_names()}

    assert {
        name: bool(module.__doc__) and callable(module.attack) for name, module in modules.items()
    } == dict.fromkeys(modules, True)
    assert {type(module.ITEM) for module in modules.values()} == {int}
