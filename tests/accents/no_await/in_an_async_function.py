import asyncio


async def main():
    quotes = [price(ticker) for ticker in "ABC"]
    for quote in quotes:
        print(quote["ticker"], quote["price"])
    return sum(quote["price"] for quote in quotes)


print(asyncio.run(main()))

# expect stdout:
# | A 10
# | B 20
# | C 30
# | 60
# expect calls: 3
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
