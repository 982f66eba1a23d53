"""Process engine: programs as locked-down CPython processes, forked from a zygote inside the jail."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolfold.engines.process.engine import ProcessEngine

__all__ = ["ProcessEngine"]


# Any: the type of the lazy name is known to mypy from the import above.
def __getattr__(name: str) -> Any:
    # At its first use: a fork server can be launched ahead without the engine.
    if name != "ProcessEngine":
        raise AttributeError(f"module 'toolfold.engines.process' has no attribute {name!r}")
    from toolfold.engines.process.engine import ProcessEngine  # noqa: PLC0415

    return ProcessEngine
