"""Makes an unnamed file in any file system but its own."""

STOPPED_BY = {"mount", "landlock"}

for folder in ("/.tree", "/etc", "/usr/lib", "/dev", "/.tree/mnt", "/var/tmp", OPEN_FOLDER):
    try:
        os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
        print("REACHED")
    except OSError:
        continue
