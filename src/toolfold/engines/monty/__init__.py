"""Monty engine: programs on `pydantic-monty`, a subset of Python interpreted in Rust, on any system."""

from toolfold.engines.monty.engine import MontyEngine

__all__ = ["MontyEngine"]
