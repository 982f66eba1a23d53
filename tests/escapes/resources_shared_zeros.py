"""Maps the device of zeros for writing, which is shared memory under another name."""

STOPPED_BY = {"mount", "landlock"}

import mmap

block = mmap.mmap(os.open("/dev/zero", os.O_RDWR), 1 << 20, flags=mmap.MAP_SHARED)
block[-1] = 1
print("REACHED")
