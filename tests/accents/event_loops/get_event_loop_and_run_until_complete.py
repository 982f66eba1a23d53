import asyncio


async def main():
    users = await get_users()
    return [user["name"] for user in users]


loop = asyncio.get_event_loop()
print(loop.run_until_complete(main()))

# expect stdout:
# | ['Ada', 'Bo', 'Cy']
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
# limits: monty
