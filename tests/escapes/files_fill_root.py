"""Fills the disk beside its data folder, where that alone is within its limit."""

STOPPED_BY = {"mount", "landlock"}
LIMITS = {"data_bytes": 4_194_304, "temp_bytes": 4_194_304}

written = 0
for folder in (os.path.dirname(os.getcwd()), os.getcwd()):
    for number in range(3):
        with open(f"{folder}/part {number}", "wb") as file:
            written += file.write(bytes(1 << 20))
if written > 4 << 20:
    print("REACHED")
