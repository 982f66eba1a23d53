import sys

sys.stdout.write("written\n")

# expect stdout:
# | written
# expect value: 8
