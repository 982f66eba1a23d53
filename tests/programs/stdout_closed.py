import sys

print("before")
sys.stdout.close()
try:
    print("after")
except ValueError as error:
    print(error, file=sys.stderr)

# expect stdout:
# | before
# expect stderr:
# | I/O operation on closed file.
# limits: monty
