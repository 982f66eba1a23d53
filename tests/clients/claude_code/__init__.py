"""The real Claude Code CLI against a model that plays a script: `make test NAME=claude`."""
