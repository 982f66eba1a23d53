"""Makes a file of two gigabytes out of nothing."""

STOPPED_BY = {"rlimits"}

with open("sparse", "wb") as file:
    file.truncate((65 << 20) if IS_CONTROL else (2 << 30))
print("REACHED")
os.unlink("sparse")
