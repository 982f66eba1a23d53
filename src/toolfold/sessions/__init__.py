"""Sessions: files and, if asked for, names that live on between programs."""

from toolfold.sessions.sessions import Session, SessionLimits, Sessions, bound_names

__all__ = ["Session", "SessionLimits", "Sessions", "bound_names"]
