"""Changes the tree that all programs share, through the links in its own root and where they lead."""

STOPPED_BY = {"mount", "landlock"}

below = ["/py", "/usr", "/usr/lib", "/etc", "/dev", "/lib", "/mnt"]
folders = [OPEN_FOLDER] if IS_CONTROL else ["/.tree", *below[:-1], *[f"/.tree{path}" for path in below]]
for folder in folders:
    for change in (
        lambda: open(f"{folder}/of the guest", "x").close(),
        lambda: os.symlink("/", f"{folder}/link of the guest"),
        lambda: os.rename(f"{folder}/{os.listdir(folder)[0]}", f"{folder}/renamed"),
    ):
        try:
            change()
            print("REACHED")
        except (OSError, IndexError):
            continue
