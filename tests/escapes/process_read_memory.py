"""Reads the memory of a process of the host."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
MAY_LACK = "this kernel restricts debuggers"

buffer = ctypes.create_string_buffer(8)
local = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(buffer), 8), 16)
remote = ctypes.create_string_buffer(struct.pack("=QQ", 4096, 8), 16)
if kernel("process_vm_readv", HOST_PID, local, 1, remote, 1, 0) in (8, -14):  # read, or no such page
    print("REACHED")
