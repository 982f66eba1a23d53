prices = [(await price(ticker))["price"] for ticker in "ABC"]
prices

# expect value: [10, 20, 30]
# expect calls: 3
