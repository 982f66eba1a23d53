"""Empties a file of the host by `truncate`, which opens nothing."""

STOPPED_BY = {"mount", "landlock"}
WITNESS = "bait.witness_is_touched"

os.truncate(WITNESS_FILE, 0)
