import asyncio

limit = asyncio.Semaphore(2)


async def limited(call):
    async with limit:
        return await call


def collect(tickers):
    return [price(ticker) for ticker in tickers]


print([quote["price"] for quote in await asyncio.gather(*[limited(price(ticker)) for ticker in "ABC"])])
print([quote["price"] for quote in await asyncio.gather(*collect("AB"))])

# expect stdout:
# | [10, 20, 30]
# | [10, 20]
# expect calls: 5
