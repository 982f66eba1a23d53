def double(price):
    return price * 2


print(double(4), (await price("A"))["price"])

# expect stdout:
# | 8 10
# expect calls: 1
