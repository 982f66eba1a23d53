import gzip

out = gzip.open("notes.gz", "wt")
out.write("a" * 1000)
print("written")

# expect stdout:
# | written
# expect files: notes.gz
# limits: monty
