print("one")
print("two", "three", sep="-", end="!\n")
print()
print(1, None, [1.5, "x"], {"a": True})

# expect stdout:
# | one
# | two-three!
# |
# | 1 None [1.5, 'x'] {'a': True}
