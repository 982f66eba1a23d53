"""Makes a setuid file where the mount would honour it."""

STOPPED_BY = {"mount", "seccomp"}
MAY_LACK = "the temporary folder of this machine is mounted nosuid"

with open("tool", "w"):
    os.chmod("tool", 0o4755)
if os.stat("tool").st_mode & 0o4000 and not os.statvfs("tool").f_flag & os.ST_NOSUID:
    print("REACHED")
