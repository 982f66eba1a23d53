"""Tools: their definition, the catalog that holds them, and the router that calls them."""

from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.tool import Tool

__all__ = ["Catalog", "Router", "Tool"]
