"""Measures this engine beside its peers: `python -m bench`. Nothing in the package imports it."""
