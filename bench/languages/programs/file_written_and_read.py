with open("notes.txt", "w") as file:
    for user in await get_users():
        file.write(f"{user['name']}\n")
with open("notes.txt") as file:
    lines = file.read().splitlines()
lines

# topic: files
# expect value: ['Ada', 'Bo', 'Cy']
