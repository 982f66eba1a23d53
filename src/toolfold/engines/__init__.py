"""Engines: the contract for their authors, and the registry that finds them by name."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolfold.engines.base import (
        Audible,
        Called,
        Capabilities,
        Died,
        Ended,
        Engine,
        EngineSettings,
        EngineTools,
        EngineWrapper,
        Event,
        Forewarned,
        Freezable,
        Guests,
        Mortal,
        NodeLoad,
        Order,
        Printed,
        ReplayTape,
        Run,
        Served,
        ServedCall,
        Stocked,
        Timed,
        Waiting,
    )
    from toolfold.engines.registry import EngineFactory, engine_named, engine_names

__all__ = [
    "Audible",
    "Called",
    "Capabilities",
    "Died",
    "Ended",
    "Engine",
    "EngineFactory",
    "EngineSettings",
    "EngineTools",
    "EngineWrapper",
    "Event",
    "Forewarned",
    "Freezable",
    "Guests",
    "Mortal",
    "NodeLoad",
    "Order",
    "Printed",
    "ReplayTape",
    "Run",
    "Served",
    "ServedCall",
    "Stocked",
    "Timed",
    "Waiting",
    "engine_named",
    "engine_names",
]

_LAZY: Final = {
    "Audible": "toolfold.engines.base",
    "Called": "toolfold.engines.base",
    "Capabilities": "toolfold.engines.base",
    "Died": "toolfold.engines.base",
    "Ended": "toolfold.engines.base",
    "Engine": "toolfold.engines.base",
    "EngineFactory": "toolfold.engines.registry",
    "EngineSettings": "toolfold.engines.base",
    "EngineTools": "toolfold.engines.base",
    "EngineWrapper": "toolfold.engines.base",
    "Event": "toolfold.engines.base",
    "Forewarned": "toolfold.engines.base",
    "Freezable": "toolfold.engines.base",
    "Guests": "toolfold.engines.base",
    "Mortal": "toolfold.engines.base",
    "NodeLoad": "toolfold.engines.base",
    "Order": "toolfold.engines.base",
    "Printed": "toolfold.engines.base",
    "ReplayTape": "toolfold.engines.base",
    "Run": "toolfold.engines.base",
    "Served": "toolfold.engines.base",
    "ServedCall": "toolfold.engines.base",
    "Stocked": "toolfold.engines.base",
    "Timed": "toolfold.engines.base",
    "Waiting": "toolfold.engines.base",
    "engine_named": "toolfold.engines.registry",
    "engine_names": "toolfold.engines.registry",
}


# Any: the type of each name is known to mypy from the imports above.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
