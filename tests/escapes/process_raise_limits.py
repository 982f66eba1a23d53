"""Raises its own resource limits."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
print("REACHED")
