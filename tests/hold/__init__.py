"""Attacks on the host itself, through the real doors, with an honest client beside them: `make test NAME=hold`."""
