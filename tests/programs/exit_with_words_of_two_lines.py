raise SystemExit("first: line\nsecond")

# expect error:
# | SystemExit: first: line
# | second
# expect message:
# | SystemExit: first: line
# | second
