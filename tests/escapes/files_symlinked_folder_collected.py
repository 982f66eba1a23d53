"""Plants a symlink to a host folder, for the host to walk."""

STOPPED_BY = {"collector"}
WITNESS = "SECRET.encode() in files.values()"

os.symlink(SECRET_FILE, "a")
os.mkdir("folder")
os.symlink(HOST_FOLDER, "folder/deeper")
os.symlink("../" * 20 + SECRET_FILE[1:], "folder/b")
