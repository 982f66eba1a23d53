def cost(ticker):
    return tools.price(ticker)["price"]


print(cost("A") + cost("B"))

# expect stdout:
# | 30
# expect calls: 2
