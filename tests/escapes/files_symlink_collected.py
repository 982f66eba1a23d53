"""Plants a symlink to a host file, for the host to collect."""

STOPPED_BY = {"collector"}
WITNESS = "SECRET.encode() in files.values()"

os.symlink(SECRET_FILE, "report.txt")
