"""Learns the accounts of the host."""

STOPPED_BY = {"mount", "landlock"}

import pwd

if len(pwd.getpwall()) > 3:
    print("REACHED")
