"""Plants a named pipe, on which a host that opens it waits for ever."""

STOPPED_BY = {"seccomp", "landlock", "collector"}
WITNESS = "error == 'stuck'"

os.mkfifo("report.txt")
