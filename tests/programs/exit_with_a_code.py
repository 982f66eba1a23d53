import sys

sys.exit("no data")

# expect error:
# | SystemExit: no data
