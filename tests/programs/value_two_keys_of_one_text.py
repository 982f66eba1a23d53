{1: "a", "1": "b"}

# expect value: [[1, "a"], ["1", "b"]]
