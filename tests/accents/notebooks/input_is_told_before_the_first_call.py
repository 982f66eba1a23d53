users = await get_users()
name = input("Which user? ")
print([user for user in users if user["name"] == name])

# expect rejected: line 2: 'input' cannot work here: nobody is there to type; write the value into the program
