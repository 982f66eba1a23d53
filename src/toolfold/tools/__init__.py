"""Tools: their definition, the catalog that holds them, the router that calls them, and search."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import CallRequest, Handler, Router
from toolfold.tools.tool import Tool

if TYPE_CHECKING:
    from toolfold.tools.router_steps import Breaker, Cache, Concurrency, Retry, wrappers
    from toolfold.tools.search import Index, describe
    from toolfold.tools.tool import parse_allowed_callers, python_name

__all__ = [
    "Breaker", "Cache", "CallRequest", "Catalog", "Concurrency", "Handler", "Index", "Retry", "Router", "Tool",
    "describe", "parse_allowed_callers", "python_name", "wrappers",
]  # fmt: skip

__getattr__ = lazy_exports(
    __name__,
    {"Breaker": "toolfold.tools.router_steps", "Cache": "toolfold.tools.router_steps",
     "Concurrency": "toolfold.tools.router_steps", "Index": "toolfold.tools.search",
     "Retry": "toolfold.tools.router_steps", "describe": "toolfold.tools.search",
     "parse_allowed_callers": "toolfold.tools.tool", "python_name": "toolfold.tools.tool",
     "wrappers": "toolfold.tools.router_steps"},
)  # fmt: skip
