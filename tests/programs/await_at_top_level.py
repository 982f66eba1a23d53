row = await price(ticker="A")
print(row["price"])

# expect stdout:
# | 10
# expect calls: 1
