users = await get_users()
assert len(users) == 3, "three users"
try:
    assert not users, "should be empty"
except AssertionError as error:
    answer = str(error)
answer

# topic: syntax
# expect value: 'should be empty'
