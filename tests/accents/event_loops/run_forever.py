import asyncio

seen = []
loop = asyncio.get_event_loop()
loop.call_soon(seen.append, 1)
loop.call_later(0.001, loop.stop)
loop.run_forever()
own = asyncio.new_event_loop()
own.call_soon(seen.append, 2)
own.call_soon(own.stop)
own.run_forever()
own.close()
print(seen)

# expect stdout:
# | [1, 2]
# limits: monty
