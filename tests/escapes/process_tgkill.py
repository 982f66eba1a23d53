"""Kills a thread of the host, past the ban on `kill`."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
WITNESS = "bait.victim_is_hurt"

kernel("tgkill", HOST_PID, HOST_PID, 9)
