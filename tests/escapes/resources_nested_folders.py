"""Makes folders in folders, for the host to fall down."""

STOPPED_BY = {"collector"}
WITNESS = "error"

for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
