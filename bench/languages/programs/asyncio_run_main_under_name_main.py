import asyncio

async def main():
    price = await get_price(ticker="A")
    print(f"A: {price['price']}")

if __name__ == "__main__":
    asyncio.run(main())

# topic: async
# expect stdout:
# | A: 10
