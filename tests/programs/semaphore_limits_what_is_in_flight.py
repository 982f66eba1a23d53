import asyncio


class Client:
    def __init__(self, limit):
        self.limit = asyncio.Semaphore(limit)
        self.now = 0
        self.most = 0

    async def add(self, n):
        async with self.limit:
            self.now += 1
            self.most = max(self.most, self.now)
            value = await add(n, 1)
            self.now -= 1
            return value


client = Client(3)
rows = await asyncio.gather(*[client.add(n) for n in range(10)])
print(sum(rows), client.most)

# expect stdout:
# | 55 3
# expect calls: 10
