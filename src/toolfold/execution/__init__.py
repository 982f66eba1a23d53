"""One life of a program, from its check to its outcome. `execution.py` puts the parts together."""
