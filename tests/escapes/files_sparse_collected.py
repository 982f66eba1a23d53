"""Plants a huge file with nothing in it, for the host to read into memory."""

STOPPED_BY = {"rlimits", "collector"}
LIMITS = {"data_bytes": 4_194_304}
WITNESS = "sum(map(len, files.values())) > 4 << 20"

os.truncate(os.open("report.bin", os.O_WRONLY | os.O_CREAT), (8 << 20) if IS_CONTROL else (2 << 30))
