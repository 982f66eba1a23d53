"""What lives on between programs: files and, if asked for, names."""

from toolfold.sessions.sessions import Session, SessionLimits, Sessions, bound_names

__all__ = ["Session", "SessionLimits", "Sessions", "bound_names"]
