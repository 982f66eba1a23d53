import asyncio
import socket

here, there = socket.socketpair()
print(here.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM)
reader, answers = await asyncio.open_connection(sock=there)
replies, writer = await asyncio.open_connection(sock=here)
# More than a socket holds, so that the rest is sent later.
lines = [b"x" * 99 + b"\n"] * 20_000


async def write():
    writer.writelines(lines)
    await writer.drain()
    writer.close()


_, text = await asyncio.gather(write(), reader.read())
print(text == b"".join(lines))

# expect stdout:
# | True
# | True
# limits: monty wasm
