"""Data models: tools, calls, programs, limits, start records, outcomes. Plain data: nothing here acts or waits.

What each call makes anew is a `msgspec.Struct`: a frozen dataclass takes ten times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from toolfold.outcome_views import OutcomeViews

# Any: a JSON value is recursive, and recursive aliases make every signature unreadable in mypy.
Json: TypeAlias = Any
Value: TypeAlias = Any
"""What crosses the wall: JSON values, `bytes` and `Media`, nested at will."""

AllowedCallers = Literal["direct", "code", "both"]
"""Who may call a tool: a model directly, its programs, or either."""
Isolation = Literal["namespace", "landlock", "none", "wasm", "monty", "scripted"]
Status = Literal["finished", "failed", "rejected", "timeout", "cancelled", "limit"]
NOTHING_RAN: Final[tuple[Status, ...]] = ("rejected",)
"""After these, not a line of the program was executed."""
ProblemKind = Literal[
    "syntax", "unknown_tool", "unknown_argument", "missing_argument", "wrong_type",
    "not_awaited", "name", "arguments", "reply", "input", "import", "too_large", "memory", "output", "calls", "cpu",
    "value", "wall_clock", "protocol", "exception",
]  # fmt: skip
Language: TypeAlias = Literal["python", "bash"]
LibrarySet: TypeAlias = str
"""`bare`, `data`, `science`, or the name of an `InstalledSet`."""
OWN_SETS: Final = ("bare", "data", "science")
"""These differ in what is loaded already, not in what can be imported."""
Covers = Literal["call", "arguments", "tool"]
"""What an approval is for: one call, calls of the tool with equal arguments, or all calls of it in this program."""

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, a sound, a link or a file, as it goes to a program and comes back."""

    kind: Literal["image", "audio", "link", "file"]
    mime: str
    data: bytes = b""
    uri: str = ""
    name: str = ""

    def __repr__(self) -> str:
        return f"Media({', '.join(filter(None, (self.name, self.mime, self.uri or _in_words(len(self.data)))))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a program may know of a tool: its names, schemas and words, not how it is called."""

    name: str
    """As its source spells it."""
    python_name: str
    """The identifier the program calls it by."""
    aliases: tuple[str, ...] = ()
    """Further identifiers that mean the same tool."""
    domain: str = ""
    """The module it is in: `from tools.<domain> import <python_name>`; empty for none."""
    short_name: str = ""
    """What its domain's module also calls it, without the prefix that makes the bare name unique."""
    description: str = ""
    input_schema: Mapping[str, Json] = field(default_factory=lambda: {"type": "object"})
    output_schema: Mapping[str, Json] | None = None
    examples: tuple[Mapping[str, Json], ...] = ()
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    allowed_callers: AllowedCallers = "both"
    timeout_seconds: float | None = None
    """How long one call may take; `None` takes the limit of the execution."""
    cache_seconds: float = 0.0
    """How long a reply may be given again to the same arguments; 0 is not at all."""
    is_lenient: bool = False
    """Its side reads `"5"` as 5 where a number is wanted, as pydantic does; others take only what the schema says."""
    source: str = "function"
    """Where it came from: `function`, `caller`, `mcp:<server>`, ..."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Argument names in schema order: the order of positional arguments."""
        return tuple(self.input_schema.get("properties", {}))

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the arguments that must be given."""
        return tuple(self.input_schema.get("required", ()))


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a tool by a program."""

    id: int
    """Counts from 1 within an execution, in the order in which the program made its calls."""
    tool: str
    """The tool's `name`, not the identifier that the program wrote."""
    arguments: Mapping[str, Value]
    line: int = 0
    """The line of the program that made the call, counted from 1; 0 if unknown."""
    within: int = 0
    """The id of the call of a saved program that made this one, whose text then has the line; 0 if none did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMeta:
    """How a reply came about, where that was not one plain call of the tool."""

    attempts: int = 1
    """How often the tool was called; 0 where an earlier reply or the breaker answered instead."""
    cached: bool = False
    """The reply is an earlier one: same arguments within `cache_seconds`, or the same idempotency key."""
    breaker: str = ""
    """`opened` or `closed` by this call; `open`: not called because of it."""
    from_record: bool = False
    """The reply is from the ledger's record of an earlier execution."""
    arguments: Mapping[str, Value] | None = None
    """What the tool was called with, where an approval changed it."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The answer to one call: a value, or the reason why there is none."""

    call_id: int
    value: Value = None
    """Of an error, `None` or what the exception has besides its text: `{"status": 404, "body": ...}`."""
    error: str | None = None
    """The whole text of the `ToolError` that the program sees; `None` for a success."""
    size_bytes: int | None = None
    """Of the value as JSON, where it was measured on the way."""
    meta: ReplyMeta | None = None
    traceback: str = ""
    """Where the tool failed; for people, never for a program or a model."""

    def __eq__(self, other: object) -> bool:
        """The same answer to the same call, however it came about."""
        if not isinstance(other, Reply):
            return NotImplemented
        return (self.call_id, self.value, self.error) == (other.call_id, other.value, other.error)

    __hash__ = None  # type: ignore[assignment]  # its value may be a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a program did not finish, in words that a model can act on."""

    kind: ProblemKind
    message: str
    """One line: what happened, the value, the next step. An exception's type and text, which may have more lines."""
    line: int | None = None
    column: int | None = None
    source: str = ""
    """The program's line at `line`, with a caret line under it where the column is known."""

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.message}" + (f"\n{self.source}" if self.source else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSet:
    """Packages that the operator had installed for programs, in a folder of their own."""

    name: LibrarySet
    """Says what is in it: another content has another name, apart from the part before the last hyphen."""
    folder: str
    modules: frozenset[str]
    """A program that imports one of these gets this set."""
    offers: tuple[str, ...] = ()
    """Of the modules, those that the operator asked for."""
    preload: tuple[str, ...] = ()
    """Imported once, outside of the locked guests: the operator trusts them."""
    code_bytes: int = 0
    """Of its compiled code: what a guest maps of it is not the program's memory."""

    def replaces(self, name: LibrarySet) -> bool:
        """Whether it is the set of that name, maybe with another content than when a program began."""
        return self.name == name or self.name.rpartition("-")[0] == name.rpartition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A text that the check let through, and what it needs."""

    text: str
    library_set: LibrarySet = "bare"
    preset_names: tuple[str, ...] = ()
    """Names used without an import that the guest has ready: `pd`, `np`, `plt`, `json`, ..."""
    sent: str = ""
    """The text as it was sent, where another runs: without its fence, its margin or the like; empty if the same."""
    notes: tuple[str, ...] = ()
    """What was left out of it or read otherwise; they become hints of the outcome."""
    stdin: str | None = None
    """What it can read from standard input; `None` gives it none, and the check refuses `input()`."""
    clock: float | None = None
    """What its clocks say at its start; then they advance with readings and sleeps only. `None`: the real time."""
    language: Language = "python"

    @property
    def sent_text(self) -> str:
        """What its author wrote."""
        return self.sent or self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of the data folder, given to a program or made by it."""

    name: str
    """Relative to the data folder, with forward slashes."""
    data: bytes
    mime: str = "application/octet-stream"

    def __repr__(self) -> str:
        return f"File({self.name}, {self.mime}, {_in_words(self.size)})"

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one program may use. Every field has a limit; there is no value for "none"."""

    wall_seconds: float = 120.0
    """From its start to its end, calls of tools included; it stands still while the execution is paused."""
    cpu_seconds: int = 120
    """Of processor time, all threads together."""
    memory_bytes: int = 512 * MIB
    """Above what the interpreter and its preloaded libraries use."""
    output_bytes: int = 64 * 1024
    """Of stdout and of stderr, each, in the outcome; the ledger keeps up to 8 MiB."""
    value_bytes: int = 10 * MIB
    """Of the program's value, encoded; also of the arguments of one call."""
    sent_bytes: int = 128 * MIB
    """Of all calls, output and the value together; each part of a value also counts as what it takes in memory."""
    reply_bytes: int = 10 * MIB
    """Of the reply to one call."""
    calls: int = 1000
    """Of tools, all together."""
    calls_in_flight: int = 100
    """That wait for their replies at the same time; further ones wait for their turn."""
    data_bytes: int = 64 * MIB
    """Of the files in the data folder, together."""
    data_files: int = 4096
    """How many files the data folder may have, and how many `/tmp`."""
    temp_bytes: int = 32 * MIB
    """Of the files in `/tmp`, together; they are gone with the program."""
    open_files: int = 256
    """At the same time."""
    threads: int = 64
    """At the same time."""
    program_bytes: int = 1 * MIB
    """Of the program's text; a longer one is rejected."""


class RunNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names by which people find a run. They change nothing about it."""

    title: str = ""
    """What it is for, in a few words of the caller's."""
    tags: Sequence[str] = ()
    user: str = ""
    """Who it is for, where the tenant says too little."""
    conversation: str = ""
    """Programs of one conversation are shown together."""
    model: str = ""
    """Which model wrote the program; the prices of tokens go by it."""

    @staticmethod
    def within(values: Mapping[str, Any], prefix: str = "") -> RunNames:
        """The names among what a client sent beside a program; a runtime checks them when it starts that."""
        return RunNames(
            **{name: values[prefix + name] for name in RunNames.__struct_fields__ if values.get(prefix + name)}
        )


class ProgramOptions(RunNames, frozen=True, kw_only=True):
    """What one program is run with: the same from every interface to the engine."""

    files: Sequence[File] = ()
    """In its data folder from its start."""
    limits: Limits | None = None
    """`None`: those of the runtime."""
    session: str = ""
    """What it leaves in the data folder is kept for the next program of this name."""
    keep_names: bool = False
    """Keep its names for the session, too."""
    on_call: Callable[[CallRecord], None] | None = None
    """Told of each call that has ended."""
    tenant: str = ""
    """On record; tools are told of it."""
    execution_id: str = ""
    """For whoever must find the execution again without its answer; nobody else may guess it. Empty takes a new one."""
    rerun_of: str = ""
    """An earlier execution: calls that it made too get the replies they got there. One that it began without a reply
    fails, unless its tool is safe to call twice or named in `repeat`."""
    repeat: Collection[str] | None = None
    hidden: Collection[str] = ()
    """Tools that it does not know of."""
    seed: int | None = None
    """Of its randomness; `None` takes a fresh one."""
    stdin: str | None = None
    clock: float | None = None
    """These two as in `Program`."""
    language: Language = "python"
    """`bash` runs in a jail in which programs start processes; see `docs/bash.md`."""

    @staticmethod
    def to_rerun(start: StartRecord, **changes: Unpack[ProgramKeywords]) -> ProgramOptions:
        """Those of an execution on record, to run it or a corrected program beside its record."""
        options = ProgramOptions(
            files=start.files, limits=start.limits, tenant=start.tenant, rerun_of=start.execution_id,
            stdin=start.program.stdin, clock=start.program.clock, language=start.program.language,
            **{name: getattr(start, name) for name in RunNames.__struct_fields__},
        )  # fmt: skip
        return msgspec.structs.replace(options, **changes)


class StartOptions(ProgramOptions, frozen=True, kw_only=True):
    """The same of a program that may pause."""

    tools: Sequence[ToolSpec] = ()
    """Those that only the caller can answer, with `resume`."""
    durable: bool = False
    """Its start is in the ledger before the program runs and its outcome before it is returned, so that `resume` goes
    on with it after a kill at any moment."""
    expires_at: float = 0.0
    """On record with it."""


if TYPE_CHECKING:  # a `TypedDict` takes long to make, and every command would wait for it

    class ProgramKeywords(TypedDict, total=False):
        """The fields of `ProgramOptions`, as keywords of `Runtime.run`."""

        files: Sequence[File]
        limits: Limits | None
        session: str
        keep_names: bool
        on_call: Callable[[CallRecord], None] | None
        tenant: str
        execution_id: str
        rerun_of: str
        repeat: Collection[str] | None
        hidden: Collection[str]
        seed: int | None
        stdin: str | None
        clock: float | None
        language: Language
        title: str
        tags: Sequence[str]
        user: str
        conversation: str
        model: str

    class StartKeywords(ProgramKeywords, total=False):
        """The fields of `StartOptions`, as keywords of `Runtime.start`."""

        tools: Sequence[ToolSpec]
        durable: bool
        expires_at: float


class StartRecord(RunNames, frozen=True, kw_only=True):
    """The start of an execution, with all that a replay begins from."""

    execution_id: str
    program: Program
    tools: tuple[ToolSpec, ...]
    """The grant, in the order in which the guest knows it."""
    outside: tuple[str, ...] = ()
    """Names of the tools that only the caller can answer."""
    limits: Limits
    files: tuple[File, ...] = ()
    brought: tuple[str, ...] = ()
    """Names of the files that the caller gave; the others are the session's."""
    seed: int = 0
    engine: str = ""
    isolation: str = ""
    tenant: str = ""
    session: str = ""
    rerun_of: str = ""
    began_at: float
    """Seconds since 1970."""
    expires_at: float = 0.0
    """The same, of the moment until which its caller may go on with it; 0 where there is none."""
    is_strict: bool = False
    """Each call that is not safe to repeat is on record before it is made, also where a kill cuts the record off."""
    interface: str = ""
    """The way in: `library`, `cli`, `mcp`, `http`, ..."""
    tags: tuple[str, ...] = ()
    is_direct: bool = False
    """One call without a program; the text shows it as one."""


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one call, for the outcome and the ledger."""

    id: int
    """As in `Call`."""
    name: str
    """Of the tool, as its source spells it."""
    arguments: Mapping[str, Value]
    """As the program gave them."""
    started_seconds: float = 0.0
    """Since the start of the execution."""
    seconds: float = 0.0
    """How long the program waited for the reply."""
    error: str | None = None
    """The text of the `ToolError` that the program got; `None` for a success."""
    bytes_in: int = 0
    """Size of the arguments, as JSON."""
    bytes_out: int = 0
    """Size of the reply, as JSON."""
    attempts: int = 1
    """How often the tool was called; 0 where an earlier reply or the breaker answered instead."""
    cached: bool = False
    """The reply is an earlier one: same arguments within `cache_seconds`, or the same idempotency key."""
    breaker: str = ""
    """`opened` or `closed` by this call; `open`: not called because of it."""
    from_record: bool = False
    """The reply is from the ledger's record of an earlier execution."""
    used_arguments: Mapping[str, Value] | None = None
    """What the tool was called with, where an approval changed it."""
    line: int = 0
    """As in `Call`."""
    within: int = 0
    """As in `Call`."""
    traceback: str = ""
    """As in `Reply`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars for a million tokens of one model."""

    input: float
    output: float
    cached: float | None = None
    """Of input that the provider has cached; `None`: as other input."""

    def of(self, *, input_tokens: int = 0, cached_tokens: int = 0, output_tokens: int = 0) -> float:
        """The dollars of a token count; `cached_tokens` is a part of `input_tokens`."""
        cached = self.input if self.cached is None else self.cached
        fresh = input_tokens - cached_tokens
        return (fresh * self.input + cached_tokens * cached + output_tokens * self.output) / 1_000_000

    @staticmethod
    def find(table: Mapping[str, Prices], model: str) -> Prices | None:
        """The prices of a model: under its name, else under the longest pattern that matches it."""
        if model in table or not model:
            return table.get(model)
        return table.get(max((name for name in table if fnmatchcase(model, name)), key=len, default=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSaved:
    """An estimate of what stayed out of the model's context, and how it was made; a loss is negative."""

    tokens: int = 0
    bytes: int = 0
    method: str = "all calls and replies once, as in one parallel request, less program and output; 4 bytes are 1 token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(OutcomeViews):
    """How an execution ended."""

    execution_id: str
    """By which the ledger and the logs know it."""
    status: Status
    """`finished`, or how it failed: `rejected` (nothing ran), `failed`, `timeout`, `limit` or `cancelled`."""
    value: Value = None
    """Of the program's last expression, or what it gave to `final_answer`."""
    stdout: str = ""
    """What it printed, up to `Limits.output_bytes`."""
    stderr: str = ""
    """The same for its standard error, with the traceback of a program that failed."""
    stdout_cut_bytes: int = 0
    """How much of what it printed is missing in `stdout`."""
    stderr_cut_bytes: int = 0
    """The same for `stderr`."""
    problem: Problem | None = None
    """Why it did not finish; `None` if it did."""
    calls: tuple[CallRecord, ...] = ()
    """Its calls of tools, in the order in which it made them."""
    files: tuple[File, ...] = ()
    """Those that it wrote or changed in the data folder."""
    deleted_files: tuple[str, ...] = ()
    """Names of the files that the program found in its session's data folder and removed there."""
    engine: str = ""
    """The name of the engine that ran it; empty if nothing ran."""
    isolation: str = ""
    """What kept the program from the host: `namespace`, `landlock`, `wasm`, `monty` or `none`."""
    seconds: float = 0.0
    """From its start to its end, without the time in which it was paused."""
    context_saved: ContextSaved = field(default_factory=ContextSaved)
    """How much of its calls and replies no model had to read."""
    hints: tuple[str, ...] = ()
    """One line each, for the model: what was read otherwise than it was written, left out or not enforced."""
    stdout_tail: str = ""
    """The end of what was printed, where `stdout` is only its start; what is missing lies between the two."""
    unmade_calls: tuple[str, ...] = ()
    """Calls that the program reached, and that nothing awaited or used: `send_email(...) at line 3`."""
    shapes: tuple[str, ...] = ()
    """One line for each reply that the program misread, or got and said nothing about: what was in it."""

    @property
    def output_name(self) -> str:
        """The file in which a later program can read all that this one printed: mentioning it is enough."""
        return f"output-{self.execution_id}.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """An execution that waits for replies only the outside can give."""

    execution_id: str
    calls: Sequence[Call]
    """All open calls, so that one round trip can answer a whole `gather`."""
    approvals: Sequence[Call] = ()
    """Calls that wait for a yes or no; whoever says yes has the tool called here."""
    seconds_left: float = field(default=0.0, compare=False)
    """Of the program's wall clock, which stands still until it goes on; asked for again, it may differ by a hair."""


def _in_words(size: int) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000 or unit == "MB":
            break
        size = round(size / 1000)
    return f"{size} {unit}"
