print([tools.price(ticker)["price"] for ticker in "ABC"])

# expect stdout:
# | [10, 20, 30]
# expect calls: 3
