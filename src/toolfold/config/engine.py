"""The name of an engine in a `toolfold.yaml`: a built-in one, or one that another distribution registers."""

from typing import Annotated

from pydantic import AfterValidator, Field

from toolfold.config.section import Section, Text
from toolfold.config.units import Seconds, must_be
from toolfold.engines.registry import BUILT_IN, engine_names, known_engine
from toolfold.errors import UsageError


def _known(name: str) -> str:
    try:
        return known_engine(name)
    except UsageError:
        *first, last = map(repr, engine_names())
        raise must_be(f"{', '.join(first)} or {last}") from None


class RayConfig(Section):
    """The cluster for the engine `ray`."""

    address: Text = "auto"
    """`HOST:PORT` of the cluster's head; `auto` finds the one that this machine is part of, or `RAY_ADDRESS`."""
    cpus: float = Field(default=0.0, ge=0)
    """How many CPUs Ray reserves on each node."""
    wait_seconds: Seconds = 60.0
    """How long a program waits if no node is available."""
    lost_after_seconds: Seconds = 20.0
    """How long a node may be silent before it counts as lost."""
    tools_on_nodes: list[Text] = Field(default_factory=list)
    """Tools that each node calls itself: read-only or idempotent functions of modules installed on every node."""


EngineName = Annotated[str, AfterValidator(_known), Field(examples=[*BUILT_IN])]
