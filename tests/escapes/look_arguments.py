"""Looks for secrets in the arguments that Python was started with."""

STOPPED_BY = {"own process"}

import sys

if "canary" in str(sys.argv) + str(sys.orig_argv):
    print("REACHED")
