users = client.get_users()
print(users)

# expect rejected: line 1: 'client' is not defined; call the tool by its own name: get_users(...)
