import asyncio

async def main():
    users = await get_users()
    print(len(users), "users")

asyncio.run(main())

# topic: async
# expect stdout:
# | 3 users
