rows = await many_rows(2000)
print(len(rows), sum(row["n"] for row in rows))

# expect stdout:
# | 2000 1999000
# expect calls: 1
