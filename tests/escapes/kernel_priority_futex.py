"""Takes locks that lend their priority, a part of the kernel with many escapes behind it."""

STOPPED_BY = {"seccomp"}

PRIVATE, REALTIME = 128, 256
LOCK, UNLOCK, TRY, WAIT_REQUEUE, COMPARE_REQUEUE, LOCK_2 = 6, 7, 8, 11, 12, 13
words = (ctypes.c_uint32 * 2)()
one, other = ctypes.addressof(words), ctypes.addressof(words) + 4
for operation in (LOCK, UNLOCK, TRY, WAIT_REQUEUE, COMPARE_REQUEUE, LOCK_2):
    for flags in (0, PRIVATE, REALTIME, PRIVATE | REALTIME):
        # Of a word that is not 7, so none of them waits.
        words[0] = 0
        if kernel("futex", one, operation | flags, 7, 0, other, 7) not in REFUSED:
            print("REACHED")
