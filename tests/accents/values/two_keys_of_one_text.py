{1: "a", "1": "b"}

# expect value: [[1, "a"], ["1", "b"]]
# expect hints:
# | value has two keys that are both '1' as text; its items were sent as pairs
