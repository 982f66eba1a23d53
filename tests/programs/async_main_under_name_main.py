import asyncio


async def main():
    print(await add(2, 3))


if __name__ == "__main__":
    asyncio.run(main())

# expect stdout:
# | 5
# expect calls: 1
