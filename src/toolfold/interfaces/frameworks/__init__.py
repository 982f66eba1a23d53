"""Adapters of a runtime to other frameworks: tool definitions in their formats, and answers to their calls."""
