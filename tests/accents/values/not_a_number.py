[float("nan"), float("inf"), 1.5]

# expect value: [None, "inf", 1.5]
# expect hints:
# | value[1] is infinite, which JSON has no number for; its text was sent
