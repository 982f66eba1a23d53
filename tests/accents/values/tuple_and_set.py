((1, 2), {3}, frozenset([4]))

# expect value: [[1, 2], [3], [4]]
