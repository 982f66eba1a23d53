"""Walks the traceback of an error up into the host."""

STOPPED_BY = {"own process"}

import sys

try:
    raise ValueError
except ValueError as error:
    frame = error.__traceback__.tb_frame
    while frame is not None:
        if "secret" in str(list(frame.f_locals)).lower() and "canary" in str(list(frame.f_locals.values())):
            print("REACHED")
        frame = frame.f_back
