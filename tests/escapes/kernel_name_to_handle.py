"""Asks for the handle of a file, half of the way around mounts."""

STOPPED_BY = {"seccomp"}

handle = ctypes.create_string_buffer(struct.pack("=I", 128), 136)
mount = ctypes.create_string_buffer(4)
if kernel("name_to_handle_at", -100, b"/tmp", handle, mount, 0) not in REFUSED:
    print("REACHED")
