"""Standard-library names that a guest uses after the fork, imported by name.

To look `os.dup2` up in `os` writes to four pages (the module, the name, the type's cache, and the name that is driven
out of it), and each is then a copy of the guest's own. A name of the module's own costs none of them. So what runs
between the fork and the end of a usual program takes these from here; all other code writes `os.dup2` as usual.
`bench/tricks.py` measures how much memory that saves.
"""

import _signal  # type: ignore[import-not-found]  # as `_socket`: the Python around them dirties pages
import _socket
import _thread
import ctypes
import gc
import itertools
import marshal
import os
import select
import sys
import threading
import types

enable_gc = gc.enable
freeze_gc = gc.freeze

duplicate = os.dup2
exit_now = os._exit
getcwd = os.getcwd
seek = os.lseek
write = os.write
SEEK_END = os.SEEK_END

Socket = _socket.socket
SOCK_STREAM = _socket.SOCK_STREAM
if sys.platform != "win32":  # where the host imports this module and no guest runs
    new_poll = select.poll
    POLLIN = select.POLLIN
else:
    new_poll = POLLIN = None

set_handler = _signal.signal
SIGTERM = int(_signal.SIGTERM)
SIGURG = int(getattr(_signal, "SIGURG", 0))

modules = sys.modules
search_path = sys.path
CodeType = types.CodeType
ModuleType = types.ModuleType
c_uint = ctypes.c_uint
c_ulong = ctypes.c_ulong

count_from = itertools.count
load = marshal.loads
thread_count = _thread._count
thread_ident = threading.get_ident
