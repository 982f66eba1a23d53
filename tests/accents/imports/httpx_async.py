import asyncio, httpx
async def main():
    async with httpx.AsyncClient() as c:
        try:
            await c.get('https://a.b')
        except httpx.HTTPError as e:
            print('offline')
asyncio.run(main())

# expect stdout:
# | offline
# limits: monty
