import matplotlib.pyplot as plt

prices = [price(ticker)["price"] for ticker in "ABC"]
plt.plot(prices)
plt.title("Prices")
plt.show()

# expect value: 'image/png'
# expect calls: 3
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
# limits: monty
