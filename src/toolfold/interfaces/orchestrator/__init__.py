"""Catalog, workers and executor under the names that hosts of `ProgrammaticToolExecutor` import.

The runtime does the work; this interface only takes its input and renders its outcome.
"""
