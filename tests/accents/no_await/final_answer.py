users = get_users()
if len(users) > 2:
    final_answer({"count": len(users), "first": users[0]["name"]})
print("never")

# expect value: {'count': 3, 'first': 'Ada'}
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
