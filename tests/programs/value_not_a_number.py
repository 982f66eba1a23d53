[float("nan"), float("inf"), 1.5]

# expect value: [None, "inf", 1.5]
