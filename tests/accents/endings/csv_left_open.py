import csv

writer = csv.writer(open("rows.csv", "w", newline=""))
writer.writerow(["name", "team"])
for user in get_users():
    writer.writerow([user["name"], user["team"]])
print("written")

# expect stdout:
# | written
# expect calls: 1
# expect files: rows.csv
# expect hints:
# | one call only: a direct call of 'get_users' would do
