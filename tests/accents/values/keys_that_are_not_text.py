{1: "a", None: "b", False: "c", 2.5: "d"}

# expect value: {'1': 'a', 'null': 'b', 'false': 'c', '2.5': 'd'}
