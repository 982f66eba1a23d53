"""Forks: memory and CPU limits would count anew."""

STOPPED_BY = {"seccomp"}

child = os.fork()
if child == 0:
    os._exit(0)
print("REACHED")
