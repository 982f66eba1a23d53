"""Requests to other hosts, over one guarded way out. Needs the extra `apis`."""

from importlib.util import find_spec

from toolfold.errors import UsageError, install_extra

if find_spec("httpx2") is None:
    raise UsageError(f"APIs need the package 'httpx2'; {install_extra('apis')}")
