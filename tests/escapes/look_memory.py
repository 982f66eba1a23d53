"""Reads through its own heap for paths of the host, page by page."""

STOPPED_BY = {"mount"}

libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
ends = os.pipe()
wanted = [path[::-1].encode() + b"/" for path in HOST_PATHS_REVERSED]
found = 0


def page(address):
    """A page's bytes; a bad address is an error of `write`, not a crash."""
    size = _libc.write(ends[1], ctypes.c_void_p(address), 4096)
    return os.read(ends[0], size) if size > 0 else b""


for top, step in ((libc.sbrk(0) & ~4095, -4096), (id(object()) & ~0xFFFFF, 4096), (id(os.environ) & ~0xFFFFF, -4096)):
    for number in range(2000):
        text = page(top + step * (number + 1))
        found += any(path in text for path in wanted)
if found:
    print("REACHED")
