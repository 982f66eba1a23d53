price = await get_price(ticker="A")
price["price"]

# topic: calls
# expect value: 10
