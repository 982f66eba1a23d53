import asyncio, aiohttp
async def main():
    s = aiohttp.ClientSession()
    await s.close()
    return 1
print(asyncio.run(main()))

# expect stdout:
# | 1
# limits: monty
