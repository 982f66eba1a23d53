"""Kills a process of the host through a descriptor of it."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
WITNESS = "bait.victim_is_hurt"

kernel("pidfd_send_signal", kernel("pidfd_open", HOST_PID, 0), 9, 0, 0)
