import asyncio


async def main():
    raise ValueError("from main")


asyncio.run(main())

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 8, in __main__
# |     asyncio.run(main())
# |   File "<program>", line 5, in main
# |     raise ValueError("from main")
# | ValueError: from main
