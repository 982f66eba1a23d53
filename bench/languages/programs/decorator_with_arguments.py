def retry(times):
    def decorate(function):
        async def wrapper(*args, **kwargs):
            for attempt in range(times):
                try:
                    return await function(*args, attempt=attempt, **kwargs)
                except ValueError:
                    continue
            return "gave up"
        return wrapper
    return decorate

@retry(3)
async def fetch(ticker, attempt=0):
    if attempt < 2:
        raise ValueError("not yet")
    return [attempt, (await get_price(ticker=ticker))["price"]]

await fetch("A")

# topic: functions
# expect value: [2, 10]
