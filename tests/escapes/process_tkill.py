"""Kills by the oldest thread call."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
WITNESS = "bait.victim_is_hurt"

kernel("tkill", HOST_PID, 9)
