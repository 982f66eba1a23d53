import sys

print("careful", file=sys.stderr)
print("fine")

# expect stdout:
# | fine
# expect stderr:
# | careful
