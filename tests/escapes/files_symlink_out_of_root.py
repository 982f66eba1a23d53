"""Follows a symlink in its root to a file of the host."""

STOPPED_BY = {"mount", "landlock"}

root = os.path.dirname(os.getcwd())
os.symlink(SECRET_FILE, f"{root}/way out")
os.symlink("/.." * 20 + SECRET_FILE, f"{root}/other way out")
for name in ("way out", "other way out"):
    if "canary" in open(f"{root}/{name}").read():
        print("REACHED")
