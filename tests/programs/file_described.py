with open("sales.csv", "w") as file:
    file.write("day,price\n2024-01-02,1.5\n2024-01-03,\n")
print(describe_files())

# expect stdout:
# | sales.csv (37 bytes): 2 rows of day date, price float?
# expect files: sales.csv
# limits: monty
