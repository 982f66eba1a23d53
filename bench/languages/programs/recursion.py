def flatten(items):
    return [one for item in items for one in (flatten(item) if isinstance(item, list) else [item])]

flatten([1, [2, [3, [4]]], 5])

# topic: functions
# expect value: [1, 2, 3, 4, 5]
