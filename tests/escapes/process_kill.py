"""Kills a process of the host."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
WITNESS = "bait.victim_is_hurt"

os.kill(HOST_PID, 9)
