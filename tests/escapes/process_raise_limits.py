"""Raises its own resource limits."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "root has no CAP_SYS_RESOURCE here"

import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
print("REACHED")
