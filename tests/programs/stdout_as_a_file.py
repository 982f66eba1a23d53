import os
import sys

print("one", file=sys.__stdout__, flush=True)
sys.stdout.buffer.write(b"two\n")
os.write(sys.stdout.fileno(), b"three\n")
os.write(sys.stderr.fileno(), b"to stderr\n")
print(sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.isatty(), sys.stdout.name, file=sys.__stderr__)

# expect stdout:
# | one
# | two
# | three
# expect stderr:
# | 1 2 False <stdout>
# | to stderr
# limits: monty
