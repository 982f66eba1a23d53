"""Builds and locks the jail, before any program is there. Knows nothing of frames, tools or programs."""
