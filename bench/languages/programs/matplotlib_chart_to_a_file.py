import os

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

prices = [(await get_price(ticker=ticker))["price"] for ticker in "ABC"]
figure, axes = plt.subplots()
axes.bar(list("ABC"), prices)
axes.set_title("prices")
figure.savefig("prices.png")
os.path.getsize("prices.png") > 1000

# topic: data
# expect value: True
