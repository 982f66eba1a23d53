"""Attacks on the host itself, through the real interfaces, with an honest client beside them: `make test NAME=hold`."""
