def price(letters):
    return {"price": len(letters)}


print(price("AAAA")["price"])

# expect stdout:
# | 4
