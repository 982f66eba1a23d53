[float("nan"), float("inf"), 1.5]

# expect value: [None, None, 1.5]
