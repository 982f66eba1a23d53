"""Programs on `pydantic-monty`, a subset of Python that is interpreted in Rust and runs on any system."""

from toolfold.engines.monty.engine import MontyEngine, type_checker

__all__ = ["MontyEngine", "type_checker"]
