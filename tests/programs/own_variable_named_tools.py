class Kit:
    async def go(self, value):
        return value + 1


tools = Kit()
print(await tools.go(1))

# expect stdout:
# | 2
