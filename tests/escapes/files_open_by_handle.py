"""Opens a file by its handle, past every mount."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

handle = (ctypes.c_char * 136)(*struct.pack("<I", 128))
mount = ctypes.c_int()
found = kernel("name_to_handle_at", -100, b"/tmp", handle, ctypes.byref(mount), 0)
folder = os.open("/tmp", os.O_RDONLY)
if kernel("open_by_handle_at", folder, handle, os.O_RDONLY) >= 0:
    print("REACHED")
