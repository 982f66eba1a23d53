"""Learns that a file of the host exists, its size and its owner."""

STOPPED_BY = {"mount"}

if os.stat(SECRET_FILE).st_size:
    print("REACHED")
