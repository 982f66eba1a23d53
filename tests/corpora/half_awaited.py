"""Half-awaited programs: random programs that await every call of a tool, and their twins that forget some `await`s.

For each of them the twin must have the same effects in the same order, print the same and end the same way, or its outcome
must name the call that was not made. New seeds each run: `python -m tests.corpora.half_awaited --count 240`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from toolfold.models import Outcome, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.router_steps import Breaker, wrappers
from toolfold.tools.tool import Tool

_AWAIT: Final = "\x00"
"""Where a twin may forget `await `."""
_OWN_AWAIT: Final = "\x01"
"""The same before a call of the program's own function."""
KEYS: Final = ("oslo", "rome", "kyiv", "lima", "bad1", "bad2", "bern")


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    seed: int
    whole: str
    half: str
    forgotten: int


class Service:
    """Tools with effects; their replies depend on their arguments and on earlier calls alone."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.entries: list[tuple[str, Any]] = []
        self._attempts: dict[Any, int] = {}

    def _reply(self, name: str, key: Any) -> Any:
        self.entries.append((name, key))
        attempt = self._attempts[name, key] = self._attempts.get((name, key), 0) + 1
        if str(key).startswith("bad") or (name == "flaky" and attempt % 2):
            raise RuntimeError(f"no {key} in attempt {attempt}")
        number = sum(map(ord, str(key))) % 7
        if name == "label":
            return f"{key}-{number}"
        return {"key": key, "n": number, "attempt": attempt, "tags": ["a", "b"][: number % 3], "by": name}

    def tools(self) -> list[Tool]:
        def tool(name: str) -> Tool:
            async def call(arguments: Any) -> Any:
                return self._reply(name, arguments["key"])

            schema = {"type": "object", "properties": {"key": {}}, "required": ["key"]}
            return Tool(spec=ToolSpec(name=name, python_name=name, input_schema=schema), call=call)

        return [tool(name) for name in ("get_row", "send", "flaky", "label", "save")]


class Writer:
    """Writes one random program."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._helpers: list[str] = []
        self._wraps: list[str] = []

    def program(self) -> str:
        rng = self._random
        parts = ["import asyncio, json, functools, dataclasses, collections", "log = []", "rows = {}", "total = 0"]
        for _ in range(rng.randint(1, 4)):
            parts.append(rng.choice(self._definitions)(self))
        body = [self._statement(0) for _ in range(rng.randint(3, 7))]
        if rng.random() < 0.4:
            lines = "\n".join(["global total, log", *body, "return len(log)"])
            body = [f"async def main():\n{_indent(lines)}", rng.choice(["print(await main())", "asyncio.run(main())"])]
        parts += body
        parts.append("print(len(log), sorted(map(str, rows)), total)")
        return "\n".join(parts)

    # pieces

    def _name(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _key(self) -> str:
        return repr(self._random.choice(KEYS[:4] if self._random.random() < 0.95 else KEYS))

    def _keys(self) -> str:
        return repr(self._random.sample(KEYS[:4], self._random.randint(1, 3)))

    def _tool(self) -> str:
        return self._random.choice(
            ["get_row", "send", "save", "send", "get_row", "save", "flaky" if self._random.random() < 0.3 else "send"]
        )

    def _call(self, argument: str | None = None, depth: int = 0) -> str:
        if argument is None:
            argument = self._key()
            if depth < 1 and self._random.random() < 0.15:
                argument = f"({self._call(depth=1)})['key']"
            elif depth < 1 and self._random.random() < 0.1:
                argument = f"{_AWAIT}label({argument})"
        return f"{_AWAIT}{self._tool()}({argument})"

    def _own(self) -> str:
        """An awaited call of a function of the program."""
        if not self._helpers:
            return self._call()
        return f"{_OWN_AWAIT}{self._random.choice(self._helpers)}({self._key()})"

    def _value(self) -> str:
        rng = self._random
        choice = rng.random()
        if choice < 0.55:
            return self._call()
        if choice < 0.8:
            return self._own()
        if choice < 0.9:
            return f"{self._call()} if total % 2 else {self._call()}"
        return f"(None or {self._call()})"

    def _use(self, name: str) -> str:
        rng = self._random
        return rng.choice([
            f"print({name}['key'])", f"total += {name}['n']", f"print(f\"{{{name}['n']:03d}}\")",
            f"log.append({name})", f"rows[{name}['key']] = {name}", f"print(json.dumps({name}))",
            f"print({name}.get('by'), len({name}['tags']))", f"if {name}['n'] > 2:\n    {self._call()}\nelse:\n    print('low')",
            f"for tag in {name}['tags']:\n    {_AWAIT}send(tag)", "pass",
        ])  # fmt: skip

    def _statement(self, depth: int) -> str:
        options = self._statements if depth < 2 else self._statements[:8]
        return self._random.choice(options)(self, depth)

    def _block(self, depth: int) -> str:
        return _indent("\n".join(self._statement(depth + 1) for _ in range(self._random.randint(1, 2))))

    # statements

    def _assign(self, depth: int) -> str:
        name = self._name()
        between = self._statement(depth + 1) + "\n" if depth < 2 and self._random.random() < 0.3 else ""
        return f"{name} = {self._value()}\n{between}{self._use(name)}"

    def _bare(self, depth: int) -> str:
        return self._value() if self._random.random() < 0.8 else self._own()

    def _append(self, depth: int) -> str:
        return self._random.choice([
            f"log.append({self._value()})", f"log.extend([{self._call()}, {self._call()}])",
            f"log += [{self._value()}]", f"log.insert(0, {self._call()})", f"log.append(({self._key()}, {self._call()}))",
        ])  # fmt: skip

    def _store(self, depth: int) -> str:
        key = self._key()
        return self._random.choice([
            f"rows[{key}] = {self._value()}", f"rows.setdefault({key}, {self._call()})",
            f"rows.update({{{key}: {self._call()}}})", f"rows.update(x={self._call()})",
        ])  # fmt: skip

    def _pair(self, depth: int) -> str:
        first, second = self._name(), self._name()
        return f"{first}, {second} = {self._call(self._key())}, {self._call(self._key())}\n{self._use(second)}\n{self._use(first)}"

    def _text(self, depth: int) -> str:
        return self._random.choice([
            f"print(f\"{{({self._call(KEY)})['n']}} of {{({self._call(KEY)})['key']}}\")",
            f"print('; '.join([({self._call()})['key'], {_AWAIT}label({self._key()})]))",
            f"print(({self._value()})['key'], ({self._call()})['n'] + 1)",
            f"print(len({_AWAIT}label({self._key()})), ({_AWAIT}label({self._key()})).upper())",
        ])  # fmt: skip

    def _walrus(self, depth: int) -> str:
        name = self._name()
        return f"if ({name} := {self._call()})['n'] >= 0:\n{_indent(self._use(name))}"

    def _guard(self, depth: int) -> str:
        name = self._name()
        body = self._random.choice([f"{name} = {self._value()}\nprint({name}['key'])", f"log.append({self._value()})",
                                    f"{name} = [{self._call()}]\nprint(len({name}))", self._call()])  # fmt: skip
        handler = self._random.choice(
            ["print('failed', type(error).__name__)", f"log.append({self._call()})", "log.append(None)"]
        )
        last = f"\nfinally:\n{_indent(self._call(self._key()))}" if self._random.random() < 0.2 else ""
        return f"try:\n{_indent(body)}\nexcept ToolError as error:\n{_indent(handler)}{last}"

    def _loop(self, depth: int) -> str:
        key = self._name("k")
        name = self._name()
        body = self._random.choice([
            f"log.append({self._call(key)})", f"{name} = {self._call(key)}\n{self._use(name)}",
            f"rows[{key}] = {self._call(key)}", f"{self._call(key)}\n{self._statement(depth + 1)}",
            f"try:\n    {name} = {self._call(key)}\nexcept ToolError:\n    continue\nlog.append({name}['n'])",
        ])  # fmt: skip
        return f"for {key} in {self._keys()}:\n{_indent(body)}"

    def _comprehension(self, depth: int) -> str:
        name, key = self._name(), self._name("k")
        value = self._random.choice([
            f"[{self._call(key)} for {key} in {self._keys()}]", f"{{{key}: {self._call(key)} for {key} in {self._keys()}}}",
            f"[({key}, {self._call(key)}) for {key} in {self._keys()}]",
            f"[{key} for {key} in {self._keys()} if ({self._call(key)})['n'] > 1]",
            f"[({self._call(key)})['key'] for {key} in {self._keys()}]",
            f"sorted([{self._call(key)} for {key} in {self._keys()}], key=lambda row: row['n'])",
        ])  # fmt: skip
        use = self._random.choice(
            [f"print(len({name}))", f"print({name})", f"log.append({name})", f"for item in {name}:\n    print(item)"]
        )
        return f"{name} = {value}\n{self._statement(depth + 1) if depth < 1 else 'pass'}\n{use}"

    def _gather(self, depth: int) -> str:
        name, key = self._name(), self._name("k")
        if not self._helpers:
            return f"{name} = await asyncio.gather(get_row('oslo'), send('rome'))\nprint(len({name}))"
        helper = self._random.choice(self._helpers)
        made = self._random.choice([
            f"{name} = await asyncio.gather(*[{helper}({key}) for {key} in {self._keys()}])",
            f"{name} = await asyncio.gather({helper}({self._key()}), get_row('lima'), return_exceptions=True)",
            f"tasks = []\nfor {key} in {self._keys()}:\n    tasks.append({helper}({key}))\n{name} = await asyncio.gather(*tasks)",
            f"{key} = asyncio.create_task({helper}('rome'))\n{name} = [await {key}]",
            f"{name} = [await asyncio.wait_for({helper}('kyiv'), 60)]",
            f"{name} = []\nfor {key} in asyncio.as_completed([{helper}('oslo')]):\n    {name}.append(await {key})",
            f"async with asyncio.TaskGroup() as group:\n    {key} = [group.create_task({helper}(x)) for x in ('oslo', 'rome')]\n"
            f"{name} = [t.result() for t in {key}]",
        ])  # fmt: skip
        return f"{made}\nfor item in {name}:\n    print(item if isinstance(item, Exception) else str(item)[:40])"

    def _queue(self, depth: int) -> str:
        name = self._name("q")
        return (
            f"{name} = asyncio.Queue()\nfor key in {self._keys()}:\n    await {name}.put({self._call('key')})\n"
            f"while not {name}.empty():\n    item = await {name}.get()\n    print(item['key'])"
        )

    def _table(self, depth: int) -> str:
        name = self._name("ops")
        result = self._name()
        return (
            f"{name} = {{'a': get_row, 'b': save}}\n"
            f"{result} = {_AWAIT}{name}['{self._random.choice('ab')}']({self._key()})\n{self._use(result)}"
        )

    def _match(self, depth: int) -> str:
        return (
            f"match {self._call()}:\n    case {{'n': int(n)}} if n > 3:\n        {self._call()}\n"
            f"    case {{'key': key}}:\n        print(key)"
        )

    # definitions

    def _helper(self) -> str:
        name = self._name("helper")
        rng = self._random
        inner = self._name()
        body = rng.choice([
            f"return {self._call('k')}", f"{inner} = {self._call('k')}\nreturn {inner}",
            f"try:\n    return {self._call('k')}\nexcept ToolError:\n    return {{'key': k, 'n': 0, 'tags': [], 'by': 'none'}}",
            f"{inner} = {self._call('k')}\n{_AWAIT}send({inner}['key'])\nreturn {inner}",
            f"{self._call('k')}\nreturn {self._call('k')}",
            f"log.append({self._call('k')})\nreturn log[-1]",
            f"if k == 'rome':\n    return {self._call('k')}\nreturn {self._call(KEY)}",
            f"async with asyncio.Semaphore(1):\n    return {self._call('k')}",
            f"for attempt in range(2):\n    try:\n        return {_AWAIT}flaky(k)\n    except ToolError:\n        {_AWAIT}send('again')\n"
            f"return {self._call(KEY)}",
            f"{inner} = [{self._call('k')}, {self._call(KEY)}]\nreturn {inner}[0]",
            f"async def inner():\n    return {self._call('k')}\nreturn {_OWN_AWAIT}inner()",
            f"def pick(row):\n    return row\nreturn pick({self._call('k')})",
            f"return dict({self._call('k')}, extra=1)", f"return {{**({self._call('k')}), 'extra': 1}}",
        ])  # fmt: skip
        self._helpers.append(name)
        return f"async def {name}(k):\n{_indent(body)}"

    def _retry(self) -> str:
        retry, name = self._name("retry"), self._name("helper")
        tool = self._random.choice(["flaky", "get_row", "save"])
        how = self._random.choice([f"{_OWN_AWAIT}{retry}({tool}, k)", f"{_OWN_AWAIT}{retry}(lambda: {tool}(k))",
                                   f"{_OWN_AWAIT}{retry}(functools.partial({tool}, k))"])  # fmt: skip
        self._helpers.append(name)
        return (
            f"async def {retry}(fn, *args, times=3):\n    for attempt in range(times):\n        try:\n"
            f"            return {_AWAIT}fn(*args)\n        except ToolError as error:\n            last = error\n    raise last\n"
            f"async def {name}(k):\n    return {how}"
        )

    def _class(self) -> str:
        kind, name = self._name("Store"), self._name("helper")
        body = self._random.choice([
            f"self.log.append({self._call('k')})\nreturn self.log[-1]",
            f"if k not in self.cache:\n    self.cache[k] = {self._call('k')}\nreturn self.cache[k]",
            f"self.last = {self._call('k')}\nreturn self.last", f"return {_OWN_AWAIT}self.other(k)",
        ])  # fmt: skip
        self._helpers.append(name)
        return (
            f"class {kind}:\n    def __init__(self):\n        self.log, self.cache, self.last = [], {{}}, None\n"
            f"    async def fetch(self, k):\n{_indent(body, 8)}\n    async def other(self, k):\n        return {self._call('k')}\n"
            f"store_{kind} = {kind}()\nasync def {name}(k):\n    return {_OWN_AWAIT}store_{kind}.fetch(k)"
        )

    def _decorator(self) -> str:
        wrap, name = self._name("wrap"), self._name("helper")
        self._helpers.append(name)
        return (
            f"def {wrap}(fn):\n    @functools.wraps(fn)\n    async def inner(*args):\n        log.append(fn.__name__)\n"
            f"        return {_OWN_AWAIT}fn(*args)\n    return inner\n@{wrap}\nasync def {name}(k):\n    return {self._call('k')}"
        )

    def _generator(self) -> str:
        rows, name = self._name("rows"), self._name("helper")
        self._helpers.append(name)
        return (
            f"async def {rows}(keys):\n    for key in keys:\n        yield {self._call('key')}\n"
            f"async def {name}(k):\n    last = None\n    async for row in {rows}([k, 'oslo']):\n        last = row\n    return last"
        )

    def _record(self) -> str:
        kind, name = self._name("Record"), self._name("helper")
        self._helpers.append(name)
        head = self._random.choice([
            f"@dataclasses.dataclass\nclass {kind}:\n    key: str\n    row: dict",
            f"{kind} = collections.namedtuple('{kind}', 'key row')",
        ])  # fmt: skip
        return f"{head}\nasync def {name}(k):\n    record = {kind}(k, {self._call('k')})\n    return record.row"

    _statements: Final[list[Callable[[Writer, int], str]]] = [
        _assign, _bare, _append, _store, _pair, _text, _walrus, _guard, _loop, _comprehension, _gather, _guard, _loop, _append,
        _queue, _table, _match, _assign,
    ]  # fmt: skip
    _definitions: Final[list[Callable[[Writer], str]]] = [
        _helper, _helper, _retry, _class, _decorator, _generator, _record,
    ]  # fmt: skip


KEY: Final = "'bern'"


def _indent(text: str, width: int = 4) -> str:
    return "\n".join(" " * width + line for line in text.split("\n"))


def twins(seed: int, *, forgets_own: bool = False) -> Twins:
    template = Writer(seed).program()
    rng = random.Random(seed + 1)
    share = rng.choice([0.2, 0.5, 0.8])
    half, forgotten = [], 0
    for letter in template:
        if letter in (_AWAIT, _OWN_AWAIT):
            if (letter == _AWAIT or forgets_own) and rng.random() < share:
                forgotten += 1
            else:
                half.append("await ")
        else:
            half.append(letter)
    whole = template.replace(_AWAIT, "await ").replace(_OWN_AWAIT, "await ")
    return Twins(seed=seed, whole=whole, half="".join(half), forgotten=forgotten)


@asynccontextmanager
async def arena() -> AsyncIterator[tuple[Runtime, Service]]:
    service = Service()
    # Programs fail on purpose, one after another.
    steps = wrappers(breaker=Breaker(failures=1_000_000))
    async with Runtime(tools=service.tools(), engine="process", steps=steps) as runtime:
        yield runtime, service


async def compare(pair: Twins, runtime: Runtime, service: Service) -> str:
    """Empty if the twins agree or the half-awaited one says which call it did not make; else what differs."""
    whole, effects = await _run(pair.whole, runtime, service)
    half, half_effects = await _run(pair.half, runtime, service)
    if whole.status == "rejected":
        return f"the awaited program is refused: {whole.problem}"
    if half.status == "rejected" and not half_effects:
        return ""  # told before the first call
    ends = [(outcome.status, outcome.stdout) for outcome in (whole, half)]
    if effects == half_effects and ends[0] == ends[1]:
        return ""
    if half.unmade_calls:
        return ""
    return f"{ends[0]} {effects}\n{ends[1]} {half_effects}\n{half.stderr[-300:]}"


async def _run(text: str, runtime: Runtime, service: Service) -> tuple[Outcome, list[tuple[str, Any]]]:
    service.clear()
    outcome = await runtime.run(text)
    return outcome, list(service.entries)


async def measure(seeds: range, *, forgets_own: bool, shows: bool = True) -> int:
    wrong = 0
    async with arena() as (runtime, service):
        for seed in seeds:
            pair = twins(seed, forgets_own=forgets_own)
            reason = await compare(pair, runtime, service)
            if reason:
                wrong += 1
                print(f"seed {seed} differs: {reason}")
                if shows:
                    print(pair.half)
    print(f"{len(seeds)} half-awaited programs{' (own functions, too)' if forgets_own else ''}, {wrong} wrong")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.corpora.half_awaited")
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument(
        "--seed", type=int, default=int(time.time()) * 1000, help="the first seed; the time unless given"
    )
    parser.add_argument("--own", action="store_true", help="forget `await` before the program's own functions, too")
    parser.add_argument("--show", action="store_true", help="print the programs that differ")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    sys.exit(bool(asyncio.run(measure(seeds, forgets_own=options.own, shows=options.show))))


if __name__ == "__main__":
    main()
