numbers = [3, 1, 2]
[list(zip("abc", numbers, strict=True)), list(enumerate(numbers, 1)), any(n > 2 for n in numbers), all(numbers), list(map(str, numbers)), list(filter(None, [0, 1, 2])), divmod(7, 2), list(reversed(numbers)), hex(255), ord("a"), isinstance(True, int), hasattr("", "join"), getattr("x", "upper")()]

# topic: syntax
# expect value: [[['a', 3], ['b', 1], ['c', 2]], [[1, 3], [2, 1], [3, 2]], True, True, ['3', '1', '2'], [1, 2], [3, 1], [2, 1, 3], '0xff', 97, True, True, 'X']
