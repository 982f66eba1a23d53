totals = [(await price(t))["price"] for t in "AB"]
print(sum(total))

# expect rejected: line 2: 'total' is not defined; did you mean 'totals'?
