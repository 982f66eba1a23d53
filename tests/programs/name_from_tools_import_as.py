from tools import get_expenses as expenses, price

print((await expenses("u1"))[0]["amount"], (await price("C"))["price"])

# expect stdout:
# | 10 30
# expect calls: 2
