"""Sends a pickle that would run a command where it is loaded."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

import pickle


class Command:
    def __reduce__(self):
        return os.system, ("true",)


send_bytes(pickle.dumps(Command()))
os._exit(0)
