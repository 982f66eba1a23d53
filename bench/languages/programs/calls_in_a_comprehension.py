[(await get_price(ticker=ticker))["price"] for ticker in ["A", "B", "C"]]

# topic: calls
# expect value: [10, 20, 30]
