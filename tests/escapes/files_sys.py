"""Lists the devices of the machine."""

STOPPED_BY = {"mount", "landlock"}
MAY_LACK = "/sys is not mounted"

if os.listdir("/sys/class"):
    print("REACHED")
