"""Keys of `policies` for tools that nodes call themselves: each is heeded there, or the tool stays with the runtime."""

from typing import Any

import pytest

from toolfold import UsageError
from toolfold.config import PolicyConfig, parse_config
from toolfold.config.build import runtime_settings, with_policies
from toolfold.sources.function_tools import tool_from_function
from toolfold.tools.catalog import Catalog
from toolfold.tools.remote_descriptions import ShippedTool, shipment

NODES_DO_IT: dict[str, Any] = {"timeout_seconds": 7, "retry": "always"}
"""A value of each key."""
THE_RUNTIME_MUST: dict[str, tuple[Any, str]] = {
    "cache_seconds": (60, "its replies are cached, and the cache is the runtime's"),
    "max_calls": (3, "max_calls limits it, and only the runtime can count its calls"),
    "max_in_flight": (2, "max_in_flight limits it, and only the runtime can count its calls"),
}
"""A value of each key, and why a tool with it cannot run on nodes."""


def look_up(n: int) -> int:
    """Ten times as much."""
    return n * 10


def shipped(policy: dict[str, Any]) -> ShippedTool:
    """What nodes are told of the tool."""
    config = parse_config(f"policies: {{look_up: {policy}}}")
    options = runtime_settings(config)
    (made,) = with_policies(config, [tool_from_function(look_up, read_only=True)])
    (one,) = shipment(["look_up"], Catalog([made]), options.policy, options.steps).tools
    return one


def test_every_key_is_heeded_by_nodes_or_by_the_runtime() -> None:
    assert {*NODES_DO_IT, *THE_RUNTIME_MUST} == set(PolicyConfig.model_fields), "see tools/remote_descriptions.py"
    assert not NODES_DO_IT.keys() & THE_RUNTIME_MUST.keys()


def test_nodes_are_told_what_they_heed() -> None:
    told = shipped(NODES_DO_IT)

    assert {"timeout_seconds": told.spec.timeout_seconds, "retry": told.retry} == NODES_DO_IT


@pytest.mark.parametrize("key", THE_RUNTIME_MUST)
def test_a_tool_with_what_only_the_runtime_can_do_is_refused(key: str) -> None:
    value, reason = THE_RUNTIME_MUST[key]

    with pytest.raises(UsageError) as refused:
        shipped({key: value})

    assert str(refused.value) == f"tools_on_nodes: 'look_up' cannot run on nodes: {reason}"
