print(sum((await price(t))["price"] for t in "ABC"))

# expect rejected: line 1: 'sum' cannot read a generator that awaits; write 'sum([...])' with a list inside
