print(f"A costs {price('A')['price']:>4}", "B costs %d" % price("B")["price"], "sum {}".format(add(1, 2)))

# expect stdout:
# | A costs   10 B costs 20 sum 3
# expect calls: 3
