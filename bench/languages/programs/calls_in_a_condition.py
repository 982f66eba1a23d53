if (await get_price(ticker="A"))["price"] > 5 and len(await get_users()) == 3:
    answer = "dear"
else:
    answer = "cheap"
answer

# topic: calls
# expect value: 'dear'
