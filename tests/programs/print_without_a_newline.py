print("no end", end="")

# expect stdout without its last newline:
# | no end
