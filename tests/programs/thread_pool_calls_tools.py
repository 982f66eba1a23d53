from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(4) as pool:
    rows = list(pool.map(tools.price, "ABC"))
print([row["price"] for row in rows])

# expect stdout:
# | [10, 20, 30]
# expect calls: 3
# limits: monty
