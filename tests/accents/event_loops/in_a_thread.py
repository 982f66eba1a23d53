import asyncio
import threading

loop = asyncio.new_event_loop()
thread = threading.Thread(target=loop.run_forever, daemon=True)
thread.start()


async def work(ticker):
    await asyncio.sleep(0.001)
    return (await price(ticker))["price"]


futures = [asyncio.run_coroutine_threadsafe(work(ticker), loop) for ticker in "ABC"]
print([future.result(timeout=10) for future in futures])
loop.call_soon_threadsafe(loop.stop)
thread.join()
loop.close()

# expect stdout:
# | [10, 20, 30]
# expect calls: 3
# limits: monty wasm
