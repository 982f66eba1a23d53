"""Tools: their definition, the catalog that holds them, the router that calls them, and search."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.tool import Tool

if TYPE_CHECKING:
    from toolfold.tools.search import Index, describe
    from toolfold.tools.steps import Breaker, Cache, Concurrency, Retry, wrappers
    from toolfold.tools.tool import parse_allowed_callers, python_name

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
    "Breaker": "toolfold.tools.steps",
    "Cache": "toolfold.tools.steps",
    "Concurrency": "toolfold.tools.steps",
    "Index": "toolfold.tools.search",
    "Retry": "toolfold.tools.steps",
    "describe": "toolfold.tools.search",
    "parse_allowed_callers": "toolfold.tools.tool",
    "python_name": "toolfold.tools.tool",
    "wrappers": "toolfold.tools.steps",
}


# Any: the type of each name is known to mypy from the imports above.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
