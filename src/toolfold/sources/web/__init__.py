"""Requests to other hosts, over one guarded way out. Needs the extra `apis`."""

from importlib.util import find_spec

from toolfold.errors import UsageError

if find_spec("httpx2") is None:
    raise UsageError("APIs need httpx2; install it with 'pip install toolfold[apis]'")
