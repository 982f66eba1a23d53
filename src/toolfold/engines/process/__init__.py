"""Programs as locked-down CPython processes, forked from a zygote that lives in the jail."""

from toolfold.engines.process.engine import ProcessEngine

__all__ = ["ProcessEngine"]
