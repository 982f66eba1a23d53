"""The official conformance suite against the interface's own stack: `make test NAME=conformance`."""
