def price(ticker):
    return {"price": len(ticker)}


print(price("AAAA")["price"])

# expect stdout:
# | 4
