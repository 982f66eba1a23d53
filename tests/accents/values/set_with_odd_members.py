{1, "a", None, (2, 3)}

# expect value: [None, 1, "a", [2, 3]]
