first = price("A")
second = price("B")
print((await second)["price"], (await first)["price"])

# expect stdout:
# | 20 10
# expect calls: 2
