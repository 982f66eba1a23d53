"""From call to reply: what a tool is, which there are, and the one path to them."""

from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.tool import Tool

__all__ = ["Catalog", "Router", "Tool"]
