f"A costs {(await get_price(ticker='A'))['price']:.2f}"

# topic: calls
# expect value: 'A costs 10.00'
