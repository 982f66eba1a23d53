"""Uses up inodes with folders and links beside its data folder, where that alone is within its limit."""

STOPPED_BY = {"mount", "landlock"}
LIMITS = {"data_files": 32}

root = os.path.dirname(os.getcwd())
for number in range(20):
    open(f"empty {number}", "w").close()
    os.mkdir(f"{root}/folder {number}")
    os.symlink("nowhere", f"{root}/link {number}")
print("REACHED")
