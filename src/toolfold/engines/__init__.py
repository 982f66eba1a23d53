"""Engines: the contract for their authors, and the registry that finds them by name."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

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
        Freezable,
        Guests,
        Mortal,
        NodeLoad,
        Order,
        Preparation,
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
    "Audible", "Called", "Capabilities", "Died", "Ended", "Engine", "EngineFactory", "EngineSettings", "EngineTools",
    "EngineWrapper", "Event", "Freezable", "Guests", "Mortal", "NodeLoad", "Order", "Preparation", "Printed",
    "ReplayTape", "Run", "Served", "ServedCall", "Stocked", "Timed", "Waiting", "engine_named", "engine_names",
]  # fmt: skip

__getattr__ = lazy_exports(
    __name__,
    dict.fromkeys(__all__, "toolfold.engines.base")
    | dict.fromkeys(("EngineFactory", "engine_named", "engine_names"), "toolfold.engines.registry"),
)
