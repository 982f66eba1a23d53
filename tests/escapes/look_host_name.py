"""Learns the name of the machine."""

STOPPED_BY = {"uts"}

import platform

if HOST_NAME in (platform.node(), os.uname().nodename):
    print("REACHED")
