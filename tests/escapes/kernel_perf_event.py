"""Opens a performance counter, a large and leaky part of the kernel."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel lets ordinary users measure nothing"

attributes = ctypes.create_string_buffer(struct.pack("=IIQQQQQ", 1, 112, 9, 0, 0, 0, 1 << 5 | 1 << 6), 112)
if kernel("perf_event_open", attributes, 0, -1, -1, 0) not in (*REFUSED, -13):
    print("REACHED")
