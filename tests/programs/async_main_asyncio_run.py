import asyncio


async def main():
    users = await get_users()
    print(len(users))


asyncio.run(main())

# expect stdout:
# | 3
# expect calls: 1
