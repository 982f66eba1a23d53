"""Programs on the nodes of a Ray cluster; `engine.py` has the engine, and `cluster.py` alone imports Ray."""

from toolfold.engines.ray.engine import RayEngine

__all__ = ["RayEngine"]
