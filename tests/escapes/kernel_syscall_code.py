"""Makes a forbidden call by machine code of its own, past the C library."""

STOPPED_BY = {"seccomp"}
MACHINE = "x86_64"

import mmap

MEMFD_CREATE = bytes.fromhex("b8 3f010000 48 8d 3d f4ffffff 31f6 0f05 c3")  # name: any readable bytes
code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(MEMFD_CREATE)
run = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
if run() >= 0:
    print("REACHED")
