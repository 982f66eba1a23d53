"""Ray engine: programs on the nodes of a cluster; `cluster.py` alone imports Ray."""

from toolfold.engines.ray.engine import RayEngine

__all__ = ["RayEngine"]
