"""Python that runs before each program on Monty: the names that it finds, and stand-ins for what Monty lacks."""

from typing import Final


def prelude(text: str) -> str:
    """What runs before a rewritten text."""
    named = {name for name in _PRELUDE if name in text}
    named |= {_NEEDS[name] for name in named if name in _NEEDS}
    return _READY + "".join(code for name, code in _PRELUDE.items() if name in named)


_READY: Final = """\
import asyncio
import json
import tools
from csv import Error as ToolError
"""
"""Names that every program finds."""

_PRELUDE: Final = {
    "__loads__": """\
def __loads__(text, **options):
    return text if isinstance(text, (dict, list)) else json.loads(text, **options)
""",
    "__task__": """\
def __task__(awaitable, name=None):
    return awaitable
""",
    "__caught__": """\
async def __caught__(awaitable):
    try:
        return await awaitable
    except Exception as error:
        return error
""",
    "__gather__": """\
async def __gather__(*awaitables, return_exceptions=False):
    if return_exceptions:
        awaitables = [__caught__(awaitable) for awaitable in awaitables]
    return await asyncio.gather(*awaitables)
""",
    "__wait_for__": """\
async def __wait_for__(awaitable, timeout):
    if timeout is not None:
        __deadline__(str(awaitable), timeout)
    return await awaitable
""",
    "__leave__": """\
def __leave__(code=None):
    raise SystemExit("" if code is None else str(code))
""",
    "__write__": """\
def __write__(text):
    print(text, end="")
    return len(text)
""",
    "__braced__": """\
def __braced__(text):
    parts = text.split("\\\\\\\\")
    for at, part in enumerate(parts):
        pieces = part.split("\\\\")
        done = pieces[0]
        for piece in pieces[1:]:
            size = 0
            while size < 2 and size < len(piece) and piece[size] in "0123456789":
                size += 1
            done += f"\\\\g<{piece[:size]}>{piece[size:]}" if size and piece[0] != "0" else "\\\\" + piece
        parts[at] = done
    return "\\\\\\\\".join(parts)
""",
    "__sub__": """\
def __sub__(pattern, repl, string, count=0, flags=0):
    import re
    if isinstance(repl, str):
        return re.sub(pattern, __braced__(repl), string, count, flags)
    done, at, left = "", 0, count or -1
    for found in re.finditer(pattern, string, flags):
        if left == 0:
            break
        left -= 1
        done += string[at:found.start()] + repl(found)
        at = found.end()
    return done + string[at:]
""",
    "__Semaphore__": """\
class __Semaphore__:
    def __init__(self, value=1):
        self.free = value
        self.waiting = []
    def locked(self):
        return self.free == 0
    async def acquire(self):
        if self.free:
            self.free -= 1
        else:
            ticket = __ticket__()
            self.waiting.append(ticket)
            await ticket
        return True
    def release(self):
        if self.waiting:
            __settle__(str(self.waiting.pop(0)))
        else:
            self.free += 1
""",
    "__Held__": """\
class __Held__:
    def __init__(self, semaphore):
        self.semaphore = semaphore
    def __enter__(self):
        return None
    def __exit__(self, *error):
        self.semaphore.release()
        return False
""",
    "__held__": """\
async def __held__(semaphore):
    await semaphore.acquire()
    return __Held__(semaphore)
""",
}
"""What stands in for what Monty lacks; a program gets what its text names, which only the edits here do.

`__deadline__`, `__ticket__` and `__settle__` are answered by the host, which owns every future.
"""

_NEEDS: Final = {"__gather__": "__caught__", "__held__": "__Held__", "__sub__": "__braced__"}
