import asyncio

def slow_sum(numbers):
    return sum(number * number for number in numbers)

await asyncio.to_thread(slow_sum, [1, 2, 3])

# topic: async
# expect value: 14
