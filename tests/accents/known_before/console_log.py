users = await get_users()
console.log(users)

# expect rejected: line 2: 'console' is not defined; write print(...)
