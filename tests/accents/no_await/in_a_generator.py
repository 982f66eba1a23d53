def quotes(tickers):
    for ticker in tickers:
        yield price(ticker)


for quote in quotes("ABC"):
    if quote["price"] == 20:
        print("found", quote["ticker"])
        break
print(next(one["price"] for one in (price(ticker) for ticker in "CBA")))

# expect stdout:
# | found B
# | 30
# expect calls: 3
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
# limits: monty
