first, *middle, last = [user["name"] for user in await get_users()]
(a, b), c = (1, 2), 3
merged = {**{"x": 1}, "y": 2}
[first, middle, last, a + b + c, merged, [*range(3), *"ab"]]

# topic: syntax
# expect value: ['Ada', ['Bo'], 'Cy', 6, {'x': 1, 'y': 2}, [0, 1, 2, 'a', 'b']]
