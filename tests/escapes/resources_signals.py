"""Queues signals to itself: kernel memory per signal."""

STOPPED_BY = {"rlimits", "seccomp"}

import signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
info = ctypes.create_string_buffer(struct.pack("=iii", signal.SIGRTMIN, 0, -1), 128)
answers = {kernel("rt_sigqueueinfo", os.getpid(), signal.SIGRTMIN, info) for _ in range(1000)}
if answers == {0}:
    print("REACHED")
