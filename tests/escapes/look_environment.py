"""Looks for secrets in the environment."""

STOPPED_BY = {"own process"}

if "canary" in str(os.environ.values()):
    print("REACHED")
