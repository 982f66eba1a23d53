"""Process engine: programs as locked-down CPython processes, forked from a zygote inside the jail."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolfold.engines.process.engine import ProcessEngine

__all__ = ["ProcessEngine"]

# At its first use: a fork server can be launched ahead without the engine.
__getattr__ = lazy_exports(__name__, {"ProcessEngine": "toolfold.engines.process.engine"})
