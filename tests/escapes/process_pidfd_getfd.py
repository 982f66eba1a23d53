"""Takes a descriptor out of a process of the host."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
MAY_LACK = "this kernel restricts debuggers"

if kernel("pidfd_getfd", kernel("pidfd_open", HOST_PID, 0), 0, 0) >= 0:
    print("REACHED")
