"""Static program check: text in, checked program out. Pure: no socket, process, clock or event loop."""

from toolfold.program.check import Checker, check

__all__ = ["Checker", "check"]
