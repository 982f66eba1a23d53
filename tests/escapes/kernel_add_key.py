"""Stores a secret in a keyring that outlives it."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no keyrings"

if kernel("add_key", b"user", b"of the guest", b"x", 1, -2) not in REFUSED:
    print("REACHED")
