import asyncio


async def rows():
    try:
        yield 1
        yield 2
    finally:
        print("generator closed")


async def forever():
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        print("task cancelled")
        raise


async def main():
    task = asyncio.create_task(forever())
    lines = rows()
    print(await anext(lines))
    await asyncio.sleep(0)
    return task, lines


left = asyncio.run(main())
print("after", left[0].cancelled())

# expect stdout:
# | 1
# | task cancelled
# | generator closed
# | after True
# limits: monty
