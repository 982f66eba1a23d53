"""What a node does of `tools_on_nodes`: makes the tools that a runtime described, and serves their calls."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from toolfold.errors import UsageError
from toolfold.execution.dispatch import Dispatch
from toolfold.protocol.codec import decoder
from toolfold.sources.functions import as_tool
from toolfold.sources.modules import Places
from toolfold.tools.catalog import Catalog
from toolfold.tools.remote import Shipment
from toolfold.tools.router import Router
from toolfold.tools.steps import wrappers
from toolfold.tools.tool import CallContext, with_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolfold.models import Call, Limits, Reply
    from toolfold.tools.remote import ShippedTool
    from toolfold.tools.tool import Tool

_shipment: Final = decoder(Shipment)


class OwnTools:
    """Serves calls with a router of its own: arguments, timeouts, retries and the breaker are as in the runtime."""

    def __init__(self, described: bytes) -> None:
        """Make the tools.

        Raises:
            UsageError: One is not here, or is another one here; the text says which.
        """
        shipped, places = _shipment.decode(described), Places()
        tools = [_made(one, places) for one in shipped.tools]
        steps = wrappers(breaker=shipped.breaker, retry=shipped.retry, error_details=shipped.error_details)
        self._router = Router(Catalog(tools), wrappers=steps)
        self._numbers = itertools.count(1)

    def open(self, limits: Limits, done: Callable[[Call, Reply, float], None]) -> Dispatch:
        """For the calls of one program; `done` is told of each reply and of how many seconds it took."""
        # A tenant of its own: nothing is remembered for another program.
        context = CallContext(tenant=str(next(self._numbers)))
        serve, most = self._router.serve, limits.reply_bytes

        async def serve_one(call: Call) -> None:
            began = time.perf_counter()
            reply = await serve(call, max_reply_bytes=most, context=context)
            done(call, reply, time.perf_counter() - began)

        return Dispatch(limits.calls_in_flight, serve_one)


def _made(shipped: ShippedTool, places: Places) -> Tool:
    spec = shipped.spec
    try:
        tool = with_name(as_tool(places.find(shipped.origin)), spec.name)
    except UsageError as error:
        raise UsageError(f"tool {spec.name!r} of tools_on_nodes is not there: {error}") from error
    if tool.spec.input_schema != spec.input_schema:
        raise UsageError(f"tool {spec.name!r} of tools_on_nodes takes other arguments there; install the same version")
    return replace(tool, spec=spec, retry=shipped.retry)
