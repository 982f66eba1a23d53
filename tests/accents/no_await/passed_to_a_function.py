import json


def describe(quote):
    if quote is None:
        return "nothing"
    return f"{quote['ticker']}={quote['price']:.1f} {json.dumps(quote)} {quote.get('nothing')}"


def quotes(tickers):
    return {ticker: price(ticker) for ticker in tickers}


print(describe(price("A")), await add(1, 2))
held = quotes("AB")
print(held["B"]["price"] + held["A"]["price"], held["A"] == {"ticker": "A", "price": 10})

# expect stdout:
# | A=10.0 {"ticker": "A", "price": 10} None 3
# | 30 True
# expect calls: 4
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
