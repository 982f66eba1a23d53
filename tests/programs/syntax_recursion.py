def depth(tree):
    return 1 + max((depth(child) for child in tree), default=0)


print(depth([[], [[]]]))

# expect stdout:
# | 3
