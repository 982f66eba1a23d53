"""Kills with a queued signal."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
WITNESS = "bait.victim_is_hurt"

info = ctypes.create_string_buffer(struct.pack("=iii", 9, 0, -1), 128)
kernel("rt_sigqueueinfo", HOST_PID, 9, info)
