"""Toolfold in interpreters that take this Linux for macOS or Windows: `make test NAME=platforms`."""
