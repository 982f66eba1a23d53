"""Tool definition: spec and call, the context and approval of a call, and options that all sources take."""

from __future__ import annotations

import difflib
import hashlib
import keyword
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypedDict, get_args, runtime_checkable

import msgspec

from toolfold.errors import ToolArgumentsInvalid, UsageError
from toolfold.events import Tell
from toolfold.models import AllowedCallers, Call, Covers, Json, LibrarySet, Limits, ToolSpec, Value
from toolfold_guest.shared.reserved_names import RESERVED

if TYPE_CHECKING:
    from toolfold.tools.search import Index


# ----------------------------------------------------------------------------------------------------
# `allowed_callers` as others spell it. Knows words only; the router enforces them.

_CODE: Final = re.compile(r"code|programmatic|code_execution(_\d{8})?")
_TAKES: Final = "it takes direct, code, both, programmatic or code_execution_20250825"


def parse_allowed_callers(value: object, *, default: AllowedCallers = "both") -> AllowedCallers:
    """One of our three words for any of these; `None` is the default.

    `direct`, `code`, `both`; OpenAI's `programmatic`; Anthropic's `code_execution_20250825`;
    and lists of them, such as `["direct", "code_execution_20250825"]`.

    Raises:
        UsageError: it is none of them.
    """
    if value is None:
        return default
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, Sequence) or isinstance(words, bytes) or not words:
        raise UsageError(f"allowed_callers must be a word or a list of words, got {value!r}; {_TAKES}")
    callers: set[AllowedCallers] = set()
    for word in words:
        if word in ("both", "direct"):
            callers.add(word)
        elif isinstance(word, str) and _CODE.fullmatch(word):
            callers.add("code")
        else:
            raise UsageError(f"allowed_callers has no {word!r}; {_TAKES}")
    return callers.pop() if len(callers) == 1 else "both"


# ----------------------------------------------------------------------------------------------------
# Whose call it is: what a step on the router's path may know of the execution around a call.
#
# Plain data and callables; made by the execution or an interface, read by the wrappers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to a call that needs approval."""

    approved: bool
    reason: str = ""
    """Why not; the program reads it."""
    arguments: Mapping[str, Value] | None = None
    """To be used instead of the program's own; they are checked again."""
    covers: Covers = "call"
    """Which further calls of this program the answer also decides: none, those of the tool with equal arguments, or
    all of the tool."""
    calls: int | None = None
    """Maximum number of calls it decides, this one included; `None` is no limit."""
    by: str = ""
    """Name of the approver, for the record."""

    def __post_init__(self) -> None:
        if self.covers not in get_args(Covers):
            raise UsageError(f"a decision covers 'call', 'arguments' or 'tool', got {self.covers!r}")
        if self.calls is not None and (type(self.calls) is not int or self.calls < 1 or self.covers == "call"):
            raise UsageError(f"calls is {self.calls!r}; give 1 or more, and what it covers: 'arguments' or 'tool'")
        if self.arguments is not None and self.covers != "call":
            raise UsageError(f"a decision that changes arguments covers one call, not {self.covers!r}")


Approve: TypeAlias = Callable[[Call, ToolSpec], Awaitable[Decision]]
ApproveCallback: TypeAlias = Callable[[Call, ToolSpec], Awaitable[Decision] | Decision]
"""As users write it: async, or a function that runs in a thread."""


@runtime_checkable
class ApproveByExecution(Protocol):
    """An `Approve` that must know whose call it is, and has the clock of that execution stand still."""

    async def __call__(self, call: Call, spec: ToolSpec, /) -> Decision: ...
    def of(self, execution_id: str, epoch: int, standing: Callable[[], AbstractContextManager[None]]) -> Approve: ...


class Spent(msgspec.Struct):
    """Budget used by an execution so far."""

    calls: dict[str, int] = msgspec.field(default_factory=partial(defaultdict, int))


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """One per execution; `msgspec.structs.replace` gives a call its own idempotency key."""

    execution_id: str = ""
    tenant: str = ""
    """Replies are never remembered across tenants."""
    entry_name: str = ""
    """Name of the interface's entry point, for messages: `execute_program`."""
    approve: Approve | None = None
    spent: Spent = msgspec.field(default_factory=Spent)
    idempotency_key: str | None = None
    """Given by the caller, a program too; a tool that takes its context has one for every call of a program."""
    outside: tuple[ToolSpec, ...] = ()
    """Tools of this execution's caller; no catalog has them, and a search must find them."""
    limits_left: Callable[[], Limits] | None = None
    """Remaining limits for a program that a call of this execution runs."""
    tell: Tell | None = None
    """Hands an event to whoever listens; `None` where nobody does."""
    learned: Callable[[Index, str], Awaitable[Index]] | None = None
    """Adds to an index what a tenant's tools were seen to return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramNeeds:
    """Needs of a saved program where it is called."""

    presets: tuple[str, ...] = ()
    """Names that it uses without an import."""
    libraries: LibrarySet = "bare"
    tools: frozenset[str] = frozenset()
    """Names of the tools that it calls, as far as they are known."""


RetryWhen: TypeAlias = Literal["safe", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A spec and its call.

    Call it through a `Router` only: that is where arguments are checked and failures become replies.
    """

    spec: ToolSpec
    # Any: a tool may return whatever `shape.to_value` takes.
    call: Callable[[Mapping[str, Any]], Awaitable[Any]]
    """Takes the arguments, returns the reply's value, raises any exception on failure."""
    prepare: Callable[[Mapping[str, Value]], Mapping[str, Any]] | None = None
    """Checks the arguments and turns them into what `call` takes, or raises `ToolArgumentsInvalid`.

    `None`: `call` takes them as they came, and the router checks them against `spec.input_schema`.
    """
    call_within: Callable[[Mapping[str, Any], CallContext], Awaitable[Any]] | None = None
    """In place of `call`, where the tool must know whose call it is: a program within a program."""
    retry: RetryWhen = "safe"
    """After a failure: `safe` tries again only where that cannot do a thing twice (see `retry`)."""
    breaks_on: Literal["unavailable", "failure"] = "unavailable"
    """What the circuit breaker counts: errors that say that the tool is unavailable, or every failure."""
    origin: str = ""
    """Where another process finds it: `module:name` or `/folder/file.py:name`; empty where it cannot."""
    needs: ProgramNeeds | None = None
    """Of a saved program."""
    close: Callable[[], Awaitable[None]] | None = None
    """Lets go of connections when a runtime is left; a later call opens new ones. Tools that share them share this."""


def with_name(tool: Tool, name: str) -> Tool:
    """The same tool under another name, also in what it says of its arguments."""
    old, prepare = tool.spec.name, tool.prepare
    if name == old:
        return tool

    def prepare_as(arguments: Mapping[str, Value]) -> Mapping[str, Any]:
        assert prepare is not None
        try:
            return prepare(arguments)
        except ToolArgumentsInvalid as error:
            raise ToolArgumentsInvalid(str(error).replace(repr(old), repr(name), 1)) from error

    spec = replace(tool.spec, name=name, python_name=python_name(name), aliases=())
    return replace(tool, spec=spec, prepare=prepare and prepare_as)


# ----------------------------------------------------------------------------------------------------
# Fields of `ToolSpec` that every source takes from its caller and hands on as they are.


class SpecOptions(TypedDict, total=False):
    """Declared properties of any tool; `ToolSpec` says what each field means."""

    domain: str
    read_only: bool
    idempotent: bool
    destructive: bool
    allowed_callers: AllowedCallers
    cache_seconds: float


class TimedSpecOptions(SpecOptions, total=False):
    """For sources that leave the timeout to the router."""

    timeout_seconds: float | None


class FunctionOptions(TimedSpecOptions, total=False):
    """For functions, whose signature and docstring say the rest."""

    name: str | None
    """Instead of the function's own; the same for the description."""
    description: str | None
    retry: RetryWhen
    examples: Sequence[Mapping[str, Json]]


# ----------------------------------------------------------------------------------------------------
# Tool names as Python identifiers, unique in both directions, and patterns over them (`Globs`).
#
# `python_name` is the rule that LibreChat's clients apply too, so their programs find their tools:
# `-` and white space become `_`, other signs are dropped, `_` goes before a leading digit and
# `_tool` after a keyword. On top of it, within one catalog (`unique_names`):
#
# * A name that Python or the guest has already (`print`, `open`, `tools`, `asyncio`, ...) gets `_tool` too:
# a program whose `print` calls a tool can say nothing. `toolfold_guest.shared.reserved_names` has them all.
# * Where several tools come to one identifier, the tool that is spelt exactly so keeps it and each
# other gets a suffix made from its own name: `a-b` beside `a_b` is `a_b_` and six hex digits.
# If none is spelt so, all get one. The order of the tools does not matter, and an identifier
# never moves from one inexactly spelt tool to another.

_SPACE: Final = re.compile(r"[-\s]")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")
_SUFFIX_DIGITS: Final = 6


def python_name(name: str) -> str:
    """The identifier of a tool that is alone with it; `tool_<hash>` if no sign of the name is left."""
    text = _OTHER.sub("", _SPACE.sub("_", name))
    if not text:
        return f"tool_{_digits(name, _SUFFIX_DIGITS)}"
    if text[0].isdigit():
        text = f"_{text}"
    return f"{text}_tool" if keyword.iskeyword(text) else text


def unique_names(names: Iterable[str]) -> dict[str, str]:
    """Each name's identifier, no two alike, whatever the order of `names`."""
    groups: dict[str, list[str]] = {}
    for name in set(names):
        groups.setdefault(avoid_reserved(python_name(name)), []).append(name)
    return {name: identifier for base in groups for name, identifier in settle_identifiers(base, groups).items()}


def avoid_reserved(identifier: str) -> str:
    """The identifier, out of the way of the names that programs have already."""
    return f"{identifier}_tool" if identifier in RESERVED else identifier


def avoid_reserved_names(spec: ToolSpec) -> ToolSpec:
    """The spec with such an identifier; after `tools.` its own spelling means it too, for that hides nothing."""
    own = python_name(spec.name)
    identifier = spec.python_name or own
    if identifier not in RESERVED and own not in RESERVED:
        return spec
    hidden = [name for name in dict.fromkeys((identifier, own)) if name in RESERVED and name not in spec.aliases]
    return replace(spec, python_name=avoid_reserved(identifier), aliases=(*spec.aliases, *hidden))


def near_names(name: str, names: Collection[str]) -> str:
    """The name most like a misspelt one; empty if none is."""
    return next(iter(difflib.get_close_matches(name, names, 1, 0.75)), "")


def settle_identifiers(base: str, groups: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The identifiers of all names that come to `base`; `groups` has every base that is in use."""
    names = groups[base]
    if len(names) == 1:
        return dict.fromkeys(names, base)
    for digits in range(_SUFFIX_DIGITS, 65, 2):
        identifiers = {name: base if name == base else f"{base}_{_digits(name, digits)}" for name in names}
        distinct = set(identifiers.values())
        if len(distinct) == len(names) and not (distinct - {base}) & groups.keys():
            return identifiers
    raise AssertionError("two names with one SHA-256")


def _digits(name: str, count: int) -> str:
    # A name from outside may hold half a surrogate pair, which UTF-8 does not have.
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:count]


# ----------------------------------------------------------------------------------------------------
# Which tools a pattern means: `*`, `?` and `[...]` over every name of a tool, case kept.


class Globs:
    """Patterns that match a tool by its name, its identifier or an alias."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in self.patterns:
            if not pattern:
                raise UsageError(f"{pattern!r} is not a pattern for tool names; write a name, or 'prefix_*'")
        self._match = re.compile("|".join(translate(pattern) for pattern in self.patterns) or r"(?!)").match

    def match(self, spec: ToolSpec) -> bool:
        return any(self._match(name) for name in (spec.name, spec.python_name, *spec.aliases))

    def match_text(self, text: str) -> bool:
        return self._match(text) is not None


def least(numbers: Mapping[str, int], spec: ToolSpec) -> int | None:
    """The smallest number among the patterns that mean this tool, if any does."""
    return min((number for pattern, number in numbers.items() if Globs([pattern]).match(spec)), default=None)


def positive(numbers: Mapping[str, int], label: str) -> dict[str, int]:
    """The numbers, each at least 1, else `UsageError`: a limit of zero is a block and should be written as one."""
    for pattern, number in numbers.items():
        if number < 1:
            raise UsageError(f"{label} of {pattern!r} must be at least 1, got {number!r}")
    return dict(numbers)
