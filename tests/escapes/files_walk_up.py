"""Walks above its root through parents and old folder descriptors."""

STOPPED_BY = {"mount", "landlock"}

for start in ["/", os.getcwd(), *range(64)]:
    try:
        folder = os.open(start, os.O_RDONLY) if isinstance(start, str) else start
        for _ in range(20):
            folder = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.stat(SECRET_FILE[1:], dir_fd=folder)
        if "canary" in open(os.open(SECRET_FILE[1:], os.O_RDONLY, dir_fd=folder)).read():
            print("REACHED")
    except OSError:
        continue
