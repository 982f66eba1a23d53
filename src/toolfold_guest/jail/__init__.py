"""Jail construction and lock-down, before any program is there. Knows no frames, tools or programs."""
