"""Uses up the file system's inodes with empty files."""

STOPPED_BY = {"mount"}
LIMITS = {"data_files": 32}

for number in range(100):
    open(f"empty {number}", "w").close()
print("REACHED")
