"""Changes the mode of a file of the host."""

STOPPED_BY = {"user", "mount", "caps", "seccomp"}
WITNESS = "bait.witness_is_touched"

os.chmod(WITNESS_FILE, 0o640)
