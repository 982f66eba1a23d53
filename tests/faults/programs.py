"""Programs whose every value can be checked: what they do step by step, their text, and what they must print.

A program prints one line of JSON for each step, `[kind, name, value]`. With each call it also passes what it has seen so
far, so that a tool or a client holds evidence which a replay must not contradict.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["effect", "plain effect", "gather", "cancel", "ask", "ask both", "clock", "random", "sleep", "gate"]
Seen = Literal["whole", "unknown"]

_PRELUDE: Final = """# {name}
import asyncio
import datetime
import json
import random
import time
import uuid

log = []


def say(kind, name, value):
    log.append([kind, name, value])
    print(json.dumps(log[-1]))


def seen():
    return {seen}


async def do(name):
    try:
        return await effect(name=name, seen=seen())
    except Exception as error:
        return {{"unknown": str(error)}}


"""
_BASH_PRELUDE: Final = """# {name}
set -e
log='[]'
say() {{
  line=$(jq -nc --arg kind "$1" --arg name "$2" --argjson value "$3" '[$kind, $name, $value]')
  log=$(jq -c --argjson line "$line" '. + [$line]' <<< "$log")
  printf '%s\\n' "$line"
}}
seen() {{ jq -c '{seen}' <<< "$log"; }}
do_() {{
  effect "$(jq -nc --arg name "$1" --argjson seen "$(seen)" '{{$name, $seen}}')" 2> "/tmp/$1" ||
    jq -Rsc '{{unknown: .}}' "/tmp/$1"
}}
ask() {{ get_weather "$(jq -nc --arg city "$1" --argjson seen "$(seen)" '{{$city, $seen}}')"; }}
both() {{
  for name in "${{@:2}}"; do "$1" "$name" > "/tmp/$name.json" & done
  wait
  for name in "${{@:2}}"; do cat "/tmp/$name.json"; done | jq -sc .
}}

"""
# The names alone: the text of an error names an execution, and a rerun has another one.
_SEEN: Final[dict[Seen, str]] = {
    "whole": "list(log)",
    "unknown": "[line[1] for line in log if 'unknown' in json.dumps(line)]",
}
_TEXTS: Final[dict[Kind, str]] = {
    "effect": 'say("effect", "{name}", await do("{name}"))',
    "plain effect": 'say("plain effect", "{name}", await effect(name="{name}", seen=seen()))',
    "gather": 'say("gather", "{name}", list(await asyncio.gather(*[do("{name}." + str(at)) for at in range(3)])))',
    "cancel": (
        'task = asyncio.create_task(do("{name}"))\n'
        "await asyncio.sleep(0)\n"
        "task.cancel()\n"
        "await asyncio.wait([task])\n"
        'say("cancel", "{name}", task.cancelled())'
    ),
    "ask": 'say("ask", "{name}", await get_weather(city="{name}", seen=seen()))',
    "ask both": (
        'say("ask both", "{name}", list(await asyncio.gather(\n'
        '    get_weather(city="{name}.0", seen=seen()), get_weather(city="{name}.1", seen=seen()))))'
    ),
    "clock": 'say("clock", "{name}", [time.time(), time.monotonic(), datetime.datetime.now().isoformat()])',
    "random": 'say("random", "{name}", [random.random(), random.getrandbits(50), uuid.uuid4().hex])',
    "sleep": 'await asyncio.sleep(0.7)\nsay("sleep", "{name}", None)',
    "gate": 'say("gate", "{name}", await gate(name="{name}"))',
}
_BASH_SEEN: Final[dict[Seen, str]] = {
    "whole": ".",
    "unknown": '[.[] | select(tostring | contains("unknown")) | .[1]]',
}
_BASH_TEXTS: Final[dict[Kind, str]] = {
    "effect": 'value=$(do_ {name}); say effect {name} "$value"',
    "gather": 'value=$(both do_ {name}.0 {name}.1 {name}.2); say gather {name} "$value"',
    "ask": 'value=$(ask {name}); say ask {name} "$value"',
    "ask both": 'value=$(both ask {name}.0 {name}.1); say "ask both" {name} "$value"',
    "sleep": "sleep 0.7; say sleep {name} null",
}
_MEMBERS: Final[dict[Kind, int]] = {"gather": 3, "ask both": 2}


@dataclass(frozen=True, slots=True)
class Step:
    """One line that a program prints, and the calls behind it."""

    kind: Kind
    name: str

    @property
    def calls(self) -> tuple[str, ...]:
        """The names of its calls."""
        if self.kind in ("clock", "random", "sleep", "gate"):
            return ()
        return (
            tuple(f"{self.name}.{at}" for at in range(_MEMBERS[self.kind])) if self.kind in _MEMBERS else (self.name,)
        )

    @property
    def is_asked(self) -> bool:
        """Whether the client answers its calls."""
        return self.kind in ("ask", "ask both")


@dataclass(frozen=True, slots=True)
class Script:
    """A program of one name."""

    steps: tuple[Step, ...]
    seen: Seen
    text: str
    is_bash: bool = False


def script(name: str, kinds: Sequence[Kind], seen: Seen = "whole", *, last: str = "", is_bash: bool = False) -> Script:
    """A program with these steps; its n-th step is `name-n`. `last` is code behind them."""
    steps = tuple(Step(kind, f"{name}-{number}") for number, kind in enumerate(kinds, 1))
    lines = [(_BASH_TEXTS if is_bash else _TEXTS)[step.kind].format(name=step.name) for step in steps]
    if is_bash:
        prelude = _BASH_PRELUDE.format(name=name, seen=_BASH_SEEN[seen])
        return Script(steps, seen, prelude + "\n".join(lines) + "\n", is_bash)
    return Script(steps, seen, _PRELUDE.format(name=name, seen=_SEEN[seen]) + "\n".join([*lines, last]) + "\n")


WITHOUT_CLIENT: Final[tuple[tuple[Kind, ...], ...]] = (
    ("effect", "clock", "random", "effect"),
    ("effect", "plain effect", "effect"),
    ("gather", "clock", "cancel", "effect"),
)
WITH_CLIENT: Final[tuple[tuple[Kind, ...], ...]] = (
    ("effect", "clock", "ask", "random", "effect", "ask", "clock", "effect"),
    ("clock", "random", "ask", "effect", "ask", "clock", "ask", "plain effect"),
    ("gather", "random", "ask both", "clock", "cancel", "ask", "gather"),
    ("effect", "sleep", "clock", "ask", "sleep", "effect", "clock"),
)

IN_BASH: Final[tuple[tuple[Kind, ...], ...]] = (
    ("effect", "ask", "effect", "ask", "effect"),
    ("gather", "ask both", "effect", "ask both", "gather"),
    ("effect", "sleep", "ask", "sleep", "effect"),
    ("gather", "effect"),
)


def kinds_of(chance: random.Random, *, has_client: bool) -> tuple[Kind, ...]:
    """One of the programs above."""
    return chance.choice(WITH_CLIENT if has_client else WITHOUT_CLIENT)
