"""Opens a file by its handle, past every mount."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

handle = ctypes.create_string_buffer(struct.pack("=I", 128), 136)
mount = ctypes.create_string_buffer(4)
found = kernel("name_to_handle_at", -100, b".", handle, mount, 0)
if kernel("open_by_handle_at", os.open(".", os.O_RDONLY), handle, os.O_RDONLY) >= 0:
    print("REACHED")
