"""How strongly a guest is held: three named sets of layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from toolfold.errors import UsageError

Layer: TypeAlias = Literal[
    "user", "mount", "pid", "net", "ipc", "uts", "cgroup", "rlimits", "caps", "landlock", "seccomp"
]
TierName: TypeAlias = Literal["namespace", "landlock", "none"]

LAYERS: Final[tuple[Layer, ...]] = get_args(Layer)
NAMESPACES: Final[frozenset[Layer]] = frozenset({"user", "mount", "pid", "net", "ipc", "uts", "cgroup"})


@dataclass(frozen=True, slots=True)
class Tier:
    """A name that goes into every outcome, and the layers that it requires, all of them."""

    name: TierName
    layers: frozenset[Layer]

    def without(self, *layers: Layer) -> Tier:
        """For tests of single layers. All namespaces need `user`, so they leave with it."""
        gone = set(layers) | (NAMESPACES if "user" in layers else set())
        return replace(self, layers=self.layers - gone)


NAMESPACE: Final = Tier("namespace", frozenset(LAYERS))
LANDLOCK: Final = Tier("landlock", frozenset({"rlimits", "caps", "landlock", "seccomp"}))
NONE: Final = Tier("none", frozenset({"rlimits"}))


def tier_named(name: str) -> Tier:
    """The tier of that name."""
    for tier in (NAMESPACE, LANDLOCK, NONE):
        if tier.name == name:
            return tier
    raise UsageError(f"no isolation {name!r}; choose 'namespace', 'landlock' or 'none'")
