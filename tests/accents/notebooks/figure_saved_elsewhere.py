import matplotlib.pyplot as plt

plt.plot([price(ticker)["price"] for ticker in "AB"])
plt.savefig("/tmp/chart.png")

# expect value: 'image/png'
# expect calls: 2
# limits: monty
