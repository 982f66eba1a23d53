"""Lists a folder of the host."""

STOPPED_BY = {"mount", "landlock"}

if "witness" in os.listdir(HOST_FOLDER):
    print("REACHED")
