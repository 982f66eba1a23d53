"""Links a file of the host into its own folder, to read it there."""

STOPPED_BY = {"mount", "landlock"}
MAY_LACK = "this kernel protects hard links"

os.link(WITNESS_FILE, "mine")
if open("mine").read() == "untouched":
    print("REACHED")
