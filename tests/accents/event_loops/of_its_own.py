import asyncio


async def main():
    quotes = await asyncio.gather(*[price(ticker) for ticker in "ABC"])
    await asyncio.sleep(0)
    return [quote["price"] for quote in quotes]


loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
try:
    print(loop.run_until_complete(main()), loop.is_running())
finally:
    loop.close()
print(loop.is_closed())

# expect stdout:
# | [10, 20, 30] False
# | True
# expect calls: 3
# limits: monty
