with open("/mnt/data/notes.txt", "w") as notes:
    notes.write("one\n")
    notes.write("two\n")
with open("notes.txt") as notes:
    print(notes.read(), end="")

# expect stdout:
# | one
# | two
# expect files: notes.txt
