import asyncio
import os
import signal


async def main():
    loop = asyncio.get_running_loop()
    heard = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, heard.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(heard.wait(), 10)
    print("heard", loop.remove_signal_handler(signal.SIGUSR1))


asyncio.run(main())

# expect stdout:
# | heard True
# limits: monty wasm
