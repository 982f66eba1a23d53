"""Counts the processes of the machine by asking for each."""

STOPPED_BY = {"pid", "landlock", "seccomp"}

for number in range(2, HOST_PID + 1):
    try:
        os.getpgid(number)
        print("REACHED")
        break
    except ProcessLookupError:
        continue
