"""Writes into a file of the host that anyone may write."""

STOPPED_BY = {"mount", "landlock"}
WITNESS = "bait.witness_is_touched"

with open(WITNESS_FILE, "w") as file:
    file.write("the guest was here")
