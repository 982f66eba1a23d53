import matplotlib.pyplot as plt

prices = [(await price(ticker))["price"] for ticker in "ABC"]
plt.plot(prices)
plt.savefig("/mnt/data/prices.png")

# expect calls: 3
# expect files: prices.png
# limits: monty
