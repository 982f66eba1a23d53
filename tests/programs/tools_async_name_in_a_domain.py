import tools.finance as finance

print((await finance.async_price("B"))["price"])

# expect stdout:
# | 20
# expect calls: 1
