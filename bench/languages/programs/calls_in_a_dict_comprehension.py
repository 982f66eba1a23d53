{ticker: (await get_price(ticker=ticker))["price"] for ticker in "ABC"}

# topic: calls
# expect value: {'A': 10, 'B': 20, 'C': 30}
