first, *rest = await get_users()
a, (b, c) = 1, (2, 3)
print(first["id"], len(rest), {**{"a": a}, "b": b}, [*range(c)])

# expect stdout:
# | u1 2 {'a': 1, 'b': 2} [0, 1, 2]
# expect calls: 1
