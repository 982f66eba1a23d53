def total(tickers):
    return sum(price(ticker)["price"] for ticker in tickers)


def first_user():
    return get_users()[0]


print(total("ABC"), first_user()["name"])

# expect stdout:
# | 60 Ada
# expect calls: 4
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
