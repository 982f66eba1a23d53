import asyncio

done = []
for next_done in asyncio.as_completed([slow(0.5), slow(0.0)]):
    done.append(await next_done)
print(done)

# expect stdout:
# | [0.0, 0.5]
# expect calls: 2
# limits: monty
