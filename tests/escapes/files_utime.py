"""Changes the times of a file of the host."""

STOPPED_BY = {"user", "mount", "caps", "seccomp"}
WITNESS = "bait.witness_is_touched"

os.utime(WITNESS_FILE, (0, 0))
