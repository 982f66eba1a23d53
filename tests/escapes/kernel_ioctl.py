"""Asks its socket for network interfaces by a device command."""

STOPPED_BY = {"seccomp"}

import errno, fcntl

SIOCGIFCONF = 0x8912
try:
    fcntl.ioctl(3, SIOCGIFCONF, bytes(16))
    print("REACHED")
except OSError as error:
    if error.errno != errno.ENOTTY:
        print("REACHED")
