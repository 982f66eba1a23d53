import ctypes

libc = ctypes.CDLL(None)
print("from Python", flush=True)
written = libc.printf(b"from C %d\n", 7)

# expect stdout:
# | from Python
# | from C 7
# limits: monty wasm
