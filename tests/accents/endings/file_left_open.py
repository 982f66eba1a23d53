f = open("o.csv", "w")
f.write("a,b\n")
print(f.write("1,2\n"))

# expect stdout:
# | 4
# expect files: o.csv
