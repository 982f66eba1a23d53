"""What a runtime was given, looked at before it is used: one clear line for a wrong type, and a ledger for a path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec

from toolfold.errors import UsageError
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.record import Ledger
from toolfold.models import Limits
from toolfold.tools.policy import Policy

_P = ParamSpec("_P")
_LIMITS: Final = {
    "timeout": "wall_seconds", "timeout_seconds": "wall_seconds", "memory": "memory_bytes", "max_calls": "calls",
    "max_output_bytes": "output_bytes", **{field.name: field.name for field in fields(Limits)},
}  # fmt: skip
_ELSEWHERE: Final = {
    "config": "toolfold.from_config(path)",
    "files": "runtime.run(text, files=[...])",
    "session": "runtime.run(text, session=...)",
}


def known_keywords(init: Callable[_P, None]) -> Callable[_P, None]:
    """A constructor that names the right keyword for a wrong one, as a `UsageError`."""
    known = signature(init).parameters

    @wraps(init)
    def checked(*args: _P.args, **keywords: _P.kwargs) -> None:
        for name in keywords:
            if name not in known:
                raise UsageError(f"Runtime takes no {name!r}{_instead(name, known)}")
        init(*args, **keywords)

    return checked


def _instead(name: str, known: Iterable[str]) -> str:
    if name in _LIMITS:
        return f"; write limits=Limits({_LIMITS[name]}=...)"
    if name in _ELSEWHERE:
        return f"; write {_ELSEWHERE[name]}"
    # Imported here: nobody else needs it, and every command waits for imports.
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


# Any: whatever a caller passes.
def check_text(text: Any) -> None:
    """Find a program that is no text.

    Raises:
        UsageError: with what it is.
    """
    if not isinstance(text, str):
        raise UsageError(f"a program is text, as in run('print(1)'); got {type(text).__name__} {_short(text)}")


# Any: the same.
def check_types(*, tools: Any, engine: Any, limits: Any, policy: Any, approve: Any, listeners: Any) -> None:
    """Find what is not what its annotation says.

    Raises:
        UsageError: with the argument, what it takes, and what it got.
    """
    if callable(tools) or isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
        raise _wrong("tools", "a list of functions or Tool objects, as in tools=[price]", tools)
    if not isinstance(engine, str) and not hasattr(engine, "open"):
        raise _wrong("engine", "a name such as 'auto', or an Engine", engine)
    if limits is not None and not isinstance(limits, Limits):
        raise _wrong("limits", "toolfold.Limits(...), as in limits=Limits(wall_seconds=10)", limits)
    if policy is not None and not isinstance(policy, Policy):
        raise _wrong("policy", "a Policy, as in policy=Policy(block=['delete_*'])", policy)
    if approve is not None and not callable(approve):
        raise _wrong("approve", "a function of a call that returns a Decision", approve)
    if isinstance(listeners, (str, Mapping)) or not isinstance(listeners, Iterable):
        raise _wrong("listeners", "a list of listeners", listeners)


class HandedOver(NamedTuple):
    """An open ledger that the runtime is to close, because nobody else will."""

    ledger: Ledger


# Any: the same.
def opened_ledger(ledger: Any) -> tuple[Ledger, bool]:
    """The ledger itself, and whether the runtime closes it: opened here, from a path or an address, or handed over.

    Raises:
        UsageError: it cannot be opened, or is something else.
    """
    if ledger is None:
        return MemoryLedger(), False
    if isinstance(ledger, HandedOver):
        return ledger.ledger, True
    if isinstance(ledger, (str, Path)):
        # Imported here: most runtimes are given none, or one that is open.
        from toolfold.ledger.open import open_ledger  # noqa: PLC0415

        return open_ledger(str(ledger)), True
    if not hasattr(ledger, "begin"):
        raise _wrong("ledger", "a path such as 'runs.sqlite', an address, or an open ledger", ledger)
    return ledger, False


def _wrong(name: str, takes: str, got: Any) -> UsageError:
    return UsageError(f"Runtime({name}=...) takes {takes}; got {type(got).__name__} {_short(got)}")


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
