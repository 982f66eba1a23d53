"""Gives a file of the host to another user."""

STOPPED_BY = {"user", "mount", "caps", "seccomp"}
NEEDS_ROOT = True
WITNESS = "bait.witness_is_touched"

os.chown(WITNESS_FILE, 12345, 12345)
