import aiohttp, asyncio
async def fetch(s, u):
    async with s.get(u) as r:
        return await r.text()
async def main():
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as s:
        return await asyncio.gather(*[fetch(s, u) for u in 'ab'], return_exceptions=True)
print([isinstance(e, aiohttp.ClientError) for e in asyncio.run(main())])

# expect stdout:
# | [True, True]
# limits: monty
