"""Tools: their definition, the catalog that holds them, the router that calls them, and search."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.tool import Tool

if TYPE_CHECKING:
    from toolfold.tools.names import python_name
    from toolfold.tools.search import Index, describe
    from toolfold.tools.steps import wrappers
    from toolfold.tools.steps.cache import Cache
    from toolfold.tools.steps.concurrency import Concurrency
    from toolfold.tools.steps.resilience import Breaker, Retry
    from toolfold.tools.tool import parse_allowed_callers

__all__ = [
    "Breaker",
    "Cache",
    "Catalog",
    "Concurrency",
    "Index",
    "Retry",
    "Router",
    "Tool",
    "describe",
    "parse_allowed_callers",
    "python_name",
    "wrappers",
]

_LAZY: Final = {
    "Breaker": "toolfold.tools.steps.resilience",
    "Cache": "toolfold.tools.steps.cache",
    "Concurrency": "toolfold.tools.steps.concurrency",
    "Index": "toolfold.tools.search",
    "Retry": "toolfold.tools.steps.resilience",
    "describe": "toolfold.tools.search",
    "parse_allowed_callers": "toolfold.tools.tool",
    "python_name": "toolfold.tools.names",
    "wrappers": "toolfold.tools.steps",
}


# Any: the type of each name is known to mypy from the imports above.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
