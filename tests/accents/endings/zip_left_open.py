import zipfile

archive = zipfile.ZipFile("notes.zip", "w")
archive.writestr("a.txt", "hello")
print("written")

# expect stdout:
# | written
# expect files: notes.zip
# limits: monty
