"""Requests for executions, the plan and the services of one; settings of a runtime and checks of its arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, Protocol, TypedDict, TypeVar

import msgspec

from toolfold.engines.base import Engine, Order
from toolfold.errors import UsageError
from toolfold.execution.wall_clock import Alarm
from toolfold.ledger.base import Ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import Limits, ProgramOptions, StartRecord
from toolfold.tools.policy import Policy

if TYPE_CHECKING:
    from toolfold.events import Listener, Listeners
    from toolfold.execution.pauses import PausedLimits
    from toolfold.execution.recorded_history import ReplayHistory, Rerun
    from toolfold.models import Language, Outcome, ProgramKeywords, ToolSpec
    from toolfold.sessions import Session, SessionLimits
    from toolfold.sessions.stores import FileStore
    from toolfold.tools.catalog import Catalog
    from toolfold.tools.learned_replies import Learning
    from toolfold.tools.router import Router, Wrapper
    from toolfold.tools.search import Embedder
    from toolfold.tools.tool import ApproveCallback, CallContext, Tool


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `run` and `start` were asked for, and what the runtime makes of it."""

    options: ProgramOptions
    limits: Limits
    session: Session | None = None
    outside: Sequence[ToolSpec] = ()
    can_pause: bool = False
    expires_at: float = 0.0
    is_strict: bool = False
    is_durable: bool = False


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Services of a runtime for its executions, shared by all that start with the same tools."""

    engine: Engine
    router: Router
    ledger: Ledger
    listeners: Listeners
    learning: Learning
    context: CallContext
    """Of calls outside of any execution; each execution has a copy with its own id, approvals and budget."""
    interface: str = ""
    """On record with each execution."""
    alarm: Alarm = msgspec.field(default_factory=Alarm)
    """Of the executions' clocks."""


class ExecutionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of an execution whose program has passed the check."""

    start_record: StartRecord
    outside: frozenset[str]
    """Names of the tools that only the caller can answer."""
    order: Order
    """For the engine; with a tape if the execution can be replayed, and not an empty one if it is. Whoever does not
    open the execution has to discard its preparation."""
    can_pause: bool
    repeatable_tools: frozenset[str]
    """Tools that may be called again where it is not known whether a call reached them."""
    session: Session | None = None
    options: ProgramOptions = ProgramOptions()
    """As it was asked for here; without files and callbacks where the execution was begun elsewhere."""
    past: ReplayHistory | None = None
    """The execution went on in another process, and this is its record there."""
    rerun: Rerun | None = None
    """Replies of an earlier execution that need not be fetched again."""
    epoch: int = 0
    """Of the ledger; whoever takes the execution over raises it."""
    approval_tools: frozenset[str] = frozenset()
    """Tools whose calls need a yes before they begin."""
    may_ask: bool = False
    """Any tool may ask while it is served; otherwise only `approval_tools` do, and before they begin."""
    is_durable: bool = False
    """The start is safe before the program runs, and the outcome before it is returned."""


# ----------------------------------------------------------------------------------------------------
# What a runtime is made with.


class ProgramSource(Protocol):
    """Saved programs that a runtime offers beside its tools."""

    def bind(self, runtime: Any, /) -> None:
        """A runtime begins to offer them."""

    def revision(self, tenant: str, /) -> tuple[str, object]:
        """The tenant if it has programs of its own, else nothing; and a value that changes when its programs do."""

    def with_mentioned(self, text: str, tenant: str = "", /) -> str:
        """A text, followed by those of the saved programs that it mentions: all that may call a tool."""

    def hint_on(self, text: str, outcome: Outcome, tenant: str, /) -> str:
        """For the model that wrote the text, once it is worth saving; else nothing."""

    def tools(self, catalog: Catalog, policy: Policy, tenant: str) -> Iterable[Tool]:
        """Those that can run with these tools."""


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a runtime is made with but its tools. `Runtime` says what those mean that are keywords of it, too."""

    engine: str | Engine = "auto"
    engine_options: Mapping[str, Any] | None = None
    limits: Limits = msgspec.field(default_factory=Limits)
    ledger: Ledger | OwnedLedger | str | Path | None = None
    policy: Policy = msgspec.field(default_factory=Policy)
    approve: ApproveCallback | None = None
    listeners: Sequence[Listener] = ()
    steps: Sequence[Wrapper] | None = None
    session_files: FileStore | None = None
    embedder: Embedder | None = None
    """Texts in, vectors out; `search_tools` then finds by meaning, too."""
    learn: bool | Learning = True
    """Note what tools without an output schema return (keys and types, never values), to tell later programs."""
    session_limits: SessionLimits | None = None
    paused_limits: PausedLimits | None = None
    """How much memory guests of paused executions may hold; beyond it the oldest end, to be replayed."""
    entry_name: str = ""
    """What the interface calls its way in, for messages."""
    interface: str = "library"
    """On record with each execution: the way in that this runtime serves."""
    telemetry: bool = True
    """Whether OpenTelemetry is told, where its API is installed."""
    languages: frozenset[Language] | None = None
    """What interfaces let their clients write programs in; unless set, Python, and over HTTP bash for LibreChat."""
    may_ask: bool = False
    """Any tool may turn out to need an answer of the outside while it is served (`CallContext.approve`), so each
    program that is started can pause, and is kept so that it can be replayed."""
    programs: ProgramSource | None = None
    """Saved programs: a `toolfold.programs.ProgramLibrary`."""
    before_files: Callable[[str], Awaitable[None]] | None = None
    """Asked before an execution's files are kept for its session; raises `Fenced` where another process may have the
    execution. The ledger fences its own records, a folder cannot."""


if TYPE_CHECKING:  # a `TypedDict` takes long to make, and every command would wait for it

    class _SharedKeywords(TypedDict, total=False):
        engine: str | Engine
        engine_options: Mapping[str, Any] | None
        ledger: Ledger | OwnedLedger | str | Path | None
        approve: ApproveCallback | None
        listeners: Sequence[Listener]
        session_files: FileStore | None

    class RuntimeKeywords(_SharedKeywords, total=False):
        """The settings that are keywords of `Runtime`."""

        limits: Limits
        policy: Policy
        steps: Sequence[Wrapper] | None

    class HostKeywords(_SharedKeywords, total=False):
        """Settings that an interface hands on as they are."""

        session_limits: SessionLimits | None
        paused_limits: PausedLimits | None
        telemetry: bool
        learn: bool | Learning
        embedder: Embedder | None

    class SettingsKeywords(RuntimeKeywords, HostKeywords, total=False):
        """All fields of `RuntimeSettings`."""

        entry_name: str
        interface: str
        languages: frozenset[Language] | None
        may_ask: bool
        programs: ProgramSource | None
        before_files: Callable[[str], Awaitable[None]] | None


def change_settings(settings: RuntimeSettings, changes: SettingsKeywords) -> RuntimeSettings:
    """The same with other values.

    Raises:
        UsageError: There is no such setting.
    """
    names = RuntimeSettings.__struct_fields__
    for name in changes:
        if name not in names:
            raise UsageError(f"Runtime takes no {name!r}{_instead(name, names)}")
    return msgspec.structs.replace(settings, **changes)


# ----------------------------------------------------------------------------------------------------
# What a runtime was given, looked at before it is used: one clear line for a wrong type, and a ledger for a path.

_P = ParamSpec("_P")
_Options = TypeVar("_Options", bound=ProgramOptions)
_LIMITS: Final = {
    "timeout": "wall_seconds", "timeout_seconds": "wall_seconds", "memory": "memory_bytes", "max_calls": "calls",
    "max_output_bytes": "output_bytes", **{field.name: field.name for field in fields(Limits)},
}  # fmt: skip
_ENGINE_OPTIONS: Final = ("isolation", "warm", "accept_no_isolation", "host_libraries")
_ELSEWHERE: Final = {
    "config": "toolfold.from_config(path)", "files": "runtime.run(text, files=[...])",
    "session": "runtime.run(text, session=...)", "observer": "listeners=[...]",
    **{name: f"engine_options={{{name!r}: ...}}" for name in _ENGINE_OPTIONS},
    **{name: f"settings=RuntimeSettings({name}=...)" for name in RuntimeSettings.__struct_fields__},
}  # fmt: skip


def known_keywords(init: Callable[_P, None]) -> Callable[_P, None]:
    """A constructor that names the right keyword for a wrong one, as a `UsageError`."""
    parameters = signature(init).parameters

    @wraps(init)
    def checked(*args: _P.args, **keywords: _P.kwargs) -> None:
        for name in keywords:
            if name not in parameters:
                raise UsageError(f"Runtime takes no {name!r}{_instead(name, parameters)}")
        init(*args, **keywords)

    return checked


def _instead(name: str, parameter_names: Iterable[str]) -> str:
    if name in _LIMITS:
        return f"; write limits=Limits({_LIMITS[name]}=...)"
    if name in _ELSEWHERE:
        return f"; write {_ELSEWHERE[name]}"
    # Imported here: nobody else needs it, and every command waits for imports.
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(name, parameter_names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def merge_options(kind: type[_Options], options: ProgramOptions | None, keywords: ProgramKeywords) -> _Options:
    """The options of one program: those that are given, with the keywords that are given beside them.

    Raises:
        UsageError: There is no such keyword.
    """
    try:
        if options is None:
            return kind(**keywords)
        if not isinstance(options, kind):
            return kind(**{**msgspec.structs.asdict(options), **keywords})
        return msgspec.structs.replace(options, **keywords) if keywords else options
    except TypeError:
        names = kind.__struct_fields__
        for name in keywords:
            if name not in names:
                verb = "start" if "tools" in names else "run"
                raise UsageError(f"{verb} takes no {name!r}{_instead(name, names)}") from None
        raise


# Any: whatever a caller passes.
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


class OwnedLedger(NamedTuple):
    """An open ledger that the runtime is to close, because nobody else will."""

    ledger: Ledger


# Any: the same.
def resolve_ledger(ledger: Any) -> tuple[Ledger, bool]:
    """The ledger itself, and whether the runtime closes it: opened here, from a path or an address, or handed over.

    Raises:
        UsageError: it cannot be opened, or is something else.
    """
    if ledger is None:
        return MemoryLedger(), False
    if isinstance(ledger, OwnedLedger):
        return ledger.ledger, True
    if isinstance(ledger, (str, Path)):
        # Imported here: most runtimes are given none, or one that is open.
        from toolfold.ledger.ledger_factory import open_ledger  # noqa: PLC0415

        return open_ledger(str(ledger)), True
    if not hasattr(ledger, "begin"):
        raise _wrong("ledger", "a path such as 'runs.sqlite', an address, or an open ledger", ledger)
    return ledger, False


def _wrong(name: str, takes: str, value: Any) -> UsageError:
    return UsageError(f"Runtime({name}=...) takes {takes}; got {type(value).__name__} {short(value)}")


def short(value: object) -> str:
    """A value for an error message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
