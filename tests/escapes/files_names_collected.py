"""Fills what the host tells the model with names of files that cannot be collected."""

STOPPED_BY = {"collector"}
WITNESS = "sum(map(len, notes)) > 16_384"

for number in range(500):
    os.symlink("/nowhere", f"{number:03}" + "x" * 200)
