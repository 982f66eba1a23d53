users = await get_users()
assert len(users) == 4, f"expected 4, got {len(users)}"

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 2, in __main__
# |     assert len(users) == 4, f"expected 4, got {len(users)}"
# | AssertionError: expected 4, got 3
# expect calls: 1
