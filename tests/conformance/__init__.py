"""The official conformance suite against the door's own stack: `make test NAME=conformance`."""
