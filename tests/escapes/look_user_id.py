"""Learns the user that the host runs as."""

STOPPED_BY = {"user", "caps"}

if os.getuid() == HOST_USER:
    print("REACHED")
