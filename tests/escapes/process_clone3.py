"""Clones with `clone3`, whose flags a filter cannot read."""

STOPPED_BY = {"seccomp"}

arguments = ctypes.create_string_buffer(struct.pack("=11Q", 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)
child = kernel("clone3", arguments, 88)
if child == 0:
    os._exit(0)
if child > 0:
    print("REACHED")
