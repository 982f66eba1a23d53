numbers = list(range(10))
del numbers[::2]
prices = {"a": 1, "b": 2}
del prices["a"]
[numbers, numbers[-2:], numbers[::-1][:2], prices]

# topic: syntax
# expect value: [[1, 3, 5, 7, 9], [7, 9], [9, 7], {'b': 2}]
