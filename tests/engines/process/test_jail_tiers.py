"""Names of tiers, and what leaves a tier together."""

import pytest

from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, NONE, Tier, tier_named
from toolfold.errors import UsageError


@pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK, NONE], ids=lambda tier: tier.name)
def test_a_tier_is_found_by_its_name(tier: Tier) -> None:
    assert tier_named(tier.name) == tier


def test_an_unknown_tier_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(UsageError) as caught:
        tier_named("docker")

    assert str(caught.value) == "no isolation 'docker'; choose 'namespace', 'landlock' or 'none'"


def test_a_tier_without_a_layer_keeps_its_name_and_its_other_layers() -> None:
    tier = LANDLOCK.without("seccomp", "rlimits")

    assert tier == Tier("landlock", frozenset({"caps", "landlock"}))


def test_every_namespace_leaves_with_the_user_namespace() -> None:
    tier = NAMESPACE.without("user")

    assert tier == Tier("namespace", LANDLOCK.layers)
