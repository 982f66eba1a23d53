"""What the programs of one runtime may call, and how they find it.

Replaced as a whole, never changed: an execution keeps the tools that it began with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolfold.engines.base import OwnTools
from toolfold.program.check import Checker
from toolfold.protocol.codec import encode
from toolfold.tools.catalog import Catalog
from toolfold.tools.names import spared_spec
from toolfold.tools.remote import shipment
from toolfold.tools.router import Router
from toolfold.tools.search import SEARCH_SPEC, Index, search_tool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from toolfold.models import ToolSpec
    from toolfold.tools.policy import Policy
    from toolfold.tools.router import Wrapper
    from toolfold.tools.tool import Tool


class Offer:
    """Tools with their checker, router and search.

    Args:
        router: Serves them instead of one that is made here.

    Raises:
        UsageError: Two tools have one name.
    """

    def __init__(
        self, tools: Iterable[Tool], policy: Policy, steps: Sequence[Wrapper], *, router: Router | None = None
    ) -> None:
        catalog = Catalog(tools)
        self._has_tools = len(catalog) > 0
        if catalog.get(SEARCH_SPEC.name) is None:
            # Also where there is nothing to find yet: a caller may bring tools of its own.
            catalog = catalog.with_tools([search_tool(self.index)])
        specs = catalog.specs if self._has_tools else ()
        self.specs = tuple(spec for spec in specs if spec.allowed_callers != "direct")
        self.checker = Checker(self.specs)
        self.router = router if router is not None else Router(catalog, wrappers=steps)
        self._policy = policy
        self._steps = steps
        self.asks = any(policy.asks(spec) for spec in self.specs)
        """Whether some of its tools need a yes."""
        self._index: Index | None = None

    @property
    def direct(self) -> tuple[ToolSpec, ...]:
        """What may be called one by one, without a program."""
        specs = self.router.catalog.specs if self._has_tools else ()
        return tuple(spec for spec in specs if spec.allowed_callers != "code")

    def index(self) -> Index:
        """Made on first use: 10,000 tools take half a second."""
        if self._index is None:
            self._index = Index([spec for spec in self.specs if spec.name != SEARCH_SPEC.name])
        return self._index

    def granted(self, outside: Sequence[ToolSpec], hidden: Collection[str]) -> tuple[ToolSpec, ...]:
        """Own tools and the caller's; among the latter alone there is also something to search."""
        if not outside and not hidden:
            return self.specs
        brought = [spared_spec(spec) for spec in outside]
        if self.specs or any(spec.name == SEARCH_SPEC.name for spec in brought):
            return (*(spec for spec in self.specs if spec.name not in hidden), *brought)
        return (*brought, SEARCH_SPEC)

    def checker_for(self, specs: tuple[ToolSpec, ...]) -> Checker:
        """The one that is kept, where it knows these very tools."""
        return self.checker if specs is self.specs else Checker(specs)

    def own_tools(self, names: Sequence[str]) -> OwnTools:
        """These tools, for an engine that calls them where its programs are.

        Raises:
            UsageError: One of them cannot be called elsewhere.
        """
        shipped = shipment(names, self.router.catalog, self._policy, self._steps)
        specs = tuple(one.spec for one in shipped.tools)
        return OwnTools(specs, encode(shipped), "toolfold.execution.own_tools:OwnTools")

    def asked(self, specs: Iterable[ToolSpec]) -> frozenset[str]:
        """Names of those that need a yes."""
        return frozenset(spec.name for spec in specs if self._policy.asks(spec)) if self.asks else frozenset()
