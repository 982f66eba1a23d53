"""Learned output schemas and use counts of tools, read from their replies; per tenant and definition.

A step of the router that only counts, and a look at a few replies after they are on their way: the first ones, and
then ever fewer. What is learned describes tools that do not say what they return. It rejects nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

import msgspec

from toolfold.errors import ToolfoldError
from toolfold.models import Json, ToolSpec, Value
from toolfold.tools import reply_shapes
from toolfold.tools.reply_shapes import ReplyShape
from toolfold.tools.router import CallRequest, Handler
from toolfold.tools.search import Embedder, EmbeddingCache, Index
from toolfold.tools.tool import Tool

SMALL_REPLY: Final = 1_000
"""Size up to which a direct call costs no more context than a program that makes it."""
MOST_TOOLS: Final = 500
"""Limit per tenant; the least recently called tool makes room."""
_MOST_TENANTS: Final = 64
_FIRST_REPLIES: Final = 4
"""All of these are looked at, then only each that doubles their number: shapes hardly ever change."""
_log: Final = logging.getLogger("toolfold.tools")


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """Learned facts about one tool; a store merges them with its own."""

    tool: str
    version: str
    """Version of the tool's definition: what an earlier one returned says nothing about this one."""
    uses: int = 0
    seen: ReplyShape | None = None
    longest: int = 0
    """Size of the longest reply that was looked at, as `reply_shapes.size_of` has it; 0 if none was."""


@runtime_checkable
class Lessons(Protocol):
    """Store of lessons, such as a ledger. At most `MOST_TOOLS` for each tenant; the oldest are dropped."""

    def learn(self, tenant: str, lesson: Lesson) -> None:
        """Gather a lesson; it is written shortly after."""

    async def learned(self, tenant: str) -> Sequence[Lesson]:
        """All of a tenant, those that were gathered before it asked among them."""


def merge_lessons(previous: Lesson | None, other: Lesson) -> Lesson:
    """Both together; where the definition has changed, the later one alone."""
    if previous is None or previous.version != other.version:
        return other
    seen = previous.seen or other.seen
    if previous.seen and other.seen:
        seen = reply_shapes.merge_reply_shapes(previous.seen, other.seen)
    return Lesson(
        tool=previous.tool, version=previous.version, uses=previous.uses + other.uses, seen=seen,
        longest=max(previous.longest, other.longest),
    )  # fmt: skip


def version_of(spec: ToolSpec) -> str:
    """Changes with what a tool's source says of it."""
    definition = (spec.name, spec.description, spec.input_schema, spec.output_schema, spec.source)
    # `dict`: a schema may be a mapping that is made when somebody looks into it.
    return hashlib.blake2b(msgspec.json.encode(definition, enc_hook=dict), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class ToolLessons:
    """Snapshot of what was learned about a tenant's tools."""

    _lessons: Mapping[str, Lesson]

    def schemas(self, specs: Iterable[ToolSpec], *, is_closed: bool = False) -> dict[str, Mapping[str, Json]]:
        schemas_by_name: dict[str, Mapping[str, Json]] = {}
        for spec in specs:
            lesson = self._lessons.get(spec.name) if spec.output_schema is None else None
            if lesson is not None and lesson.seen is not None and lesson.version == version_of(spec):
                schema = reply_shapes.schema_of(lesson.seen, is_closed=is_closed)
                if schema is not None:
                    schemas_by_name[spec.name] = schema
        return schemas_by_name

    def small(self, specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Those that only read, and that have replied `NEEDED_REPLIES` times and never much; used most first."""
        uses = self.uses
        small = [
            spec for spec in specs
            if spec.read_only and not spec.destructive and (lesson := self._lessons.get(spec.name)) is not None
            and lesson.uses >= reply_shapes.NEEDED_REPLIES and 0 < lesson.longest <= SMALL_REPLY
            and lesson.version == version_of(spec)
        ]  # fmt: skip
        return tuple(sorted(small, key=lambda spec: -uses[spec.name]))

    @property
    def uses(self) -> dict[str, int]:
        """Approximate number of calls by tool: it is stored at ever longer intervals."""
        return {name: lesson.uses for name, lesson in self._lessons.items()}


class _TenantLessons:
    def __init__(self, *, is_read: bool) -> None:
        self.lessons: dict[str, Lesson] = {}
        self.counts: dict[str, int] = {}
        """Calls in this process, by tool and version."""
        self.is_read = is_read
        """The store's lessons are here; until then, ours wait."""
        self.waiting: list[Lesson] = []
        self.reading: asyncio.Task[None] | None = None
        self.index: tuple[Index, int, Index] | None = None
        """The last index that was made with these lessons, from which, and after how many changes."""
        self.changes = 0

    def add(self, lesson: Lesson) -> None:
        previous = self.lessons.pop(lesson.tool, None)
        self.lessons[lesson.tool] = merge_lessons(previous, lesson)
        self.changes += lesson.seen is not None
        if len(self.lessons) > MOST_TOOLS:
            del self.lessons[next(iter(self.lessons))]


class Learning:
    """Lessons of one runtime, kept in `store` beyond this process; with `is_shared` all tenants are one."""

    def __init__(
        self, store: Lessons | None = None, *, is_on: bool = True, embedder: Embedder | None = None,
        is_shared: bool = False,
    ) -> None:  # fmt: skip
        self._store = store
        self._is_on = is_on
        self._is_shared = is_shared
        self._embeddings = None if embedder is None else EmbeddingCache(embedder)
        self._tenants: OrderedDict[str, _TenantLessons] = OrderedDict()
        self._unseen: list[tuple[str, Lesson, Value, bool]] = []
        """Replies to look at as soon as there is time, or somebody asks."""

    # what calls say

    def wrap(self, tool: Tool, rest: Handler) -> Handler:
        """The step: counts calls, and looks at some replies of a tool that does not say what it returns."""
        if not self._is_on or tool.spec.source in ("toolfold", "program"):
            return rest
        name, version, has_output_schema = tool.spec.name, version_of(tool.spec), tool.spec.output_schema is not None
        key = f"{name} {version}"
        first = reply_shapes.NEEDED_REPLIES if has_output_schema else _FIRST_REPLIES
        tenants, is_shared = self._tenants, self._is_shared

        # Not async, as in `router.checked`: most calls need no more than this, a quarter of a microsecond.
        def count(request: CallRequest) -> Awaitable[Value]:
            context = request.context
            tenant = "" if context is None or is_shared else context.tenant
            tenant_lessons = tenants.get(tenant) or self._lessons_of(tenant)
            uses = tenant_lessons.counts[key] = tenant_lessons.counts.get(key, 0) + 1
            if uses > first and uses & (uses - 1):
                return rest(request)
            lesson = Lesson(tool=name, version=version, uses=1 if uses <= first else uses // 2)
            return self._watch(tenant, lesson, request, rest, has_output_schema)

        return count

    async def _watch(
        self, tenant: str, lesson: Lesson, request: CallRequest, rest: Handler, has_output_schema: bool
    ) -> Value:
        value = await rest(request)
        # Later: the reply goes to the program first.
        if not self._unseen:
            asyncio.get_running_loop().call_soon(self._look)
        self._unseen.append((tenant, lesson, value, has_output_schema))
        return value

    def _look(self) -> None:
        unseen, self._unseen = self._unseen, []
        for tenant, lesson, value, has_output_schema in unseen:
            with suppress(RuntimeError):  # the tool has kept it, and changes it while we look
                seen = None if has_output_schema else reply_shapes.shape_of_reply(value)
                size = reply_shapes.size_of(value, SMALL_REPLY)
                self._add(tenant, msgspec.structs.replace(lesson, seen=seen, longest=size))

    def _add(self, tenant: str, lesson: Lesson) -> None:
        known = self._lessons_of(tenant)
        if not known.is_read:
            if len(known.waiting) < MOST_TOOLS:
                known.waiting.append(lesson)
            self._begin_to_read(tenant, known)
            return
        known.add(lesson)
        if self._store is not None:
            with suppress(ToolfoldError):  # a ledger that cannot be written says so itself
                self._store.learn(tenant, lesson)

    def _lessons_of(self, tenant: str) -> _TenantLessons:
        tenant_lessons = self._tenants.get(tenant)
        if tenant_lessons is None:
            tenant_lessons = self._tenants[tenant] = _TenantLessons(is_read=self._store is None)
            if len(self._tenants) > _MOST_TENANTS:
                self._tenants.popitem(last=False)
        return tenant_lessons

    def _owner(self, tenant: str) -> str:
        return "" if self._is_shared else tenant

    # what the store says

    def begin(self) -> None:
        """Read what is there of the usual tenant, in the background."""
        tenant_lessons = self._lessons_of("")
        if self._is_on and not tenant_lessons.is_read:
            self._begin_to_read("", tenant_lessons)

    async def read(self, tenant: str) -> None:
        """Until what other processes and earlier ones have learned is here."""
        self._look()
        tenant = self._owner(tenant)
        tenant_lessons = self._lessons_of(tenant)
        if self._is_on and not tenant_lessons.is_read:
            await asyncio.shield(self._begin_to_read(tenant, tenant_lessons))

    async def close(self) -> None:
        """Until nothing more is handed to the store."""
        self._look()
        tasks = [known.reading for known in self._tenants.values() if known.reading is not None]
        if tasks:
            await asyncio.wait(tasks)

    def _begin_to_read(self, tenant: str, tenant_lessons: _TenantLessons) -> asyncio.Task[None]:
        if tenant_lessons.reading is None:
            tenant_lessons.reading = asyncio.get_running_loop().create_task(self._read(tenant, tenant_lessons))
        return tenant_lessons.reading

    async def _read(self, tenant: str, tenant_lessons: _TenantLessons) -> None:
        assert self._store is not None
        try:
            for lesson in await self._store.learned(tenant):
                tenant_lessons.add(lesson)
        except ToolfoldError as error:
            _log.warning("learned output schemas cannot be read: %s", error)
        finally:
            tenant_lessons.is_read = True
            tenant_lessons.reading = None
        waiting, tenant_lessons.waiting = tenant_lessons.waiting, []
        for lesson in waiting:
            self._add(tenant, lesson)

    # what is told

    async def lessons(self, tenant: str = "") -> ToolLessons:
        """Lessons so far, of this and earlier processes: shapes of replies, and number of calls."""
        await self.read(tenant)
        return self.snapshot(tenant)

    def snapshot(self, tenant: str = "") -> ToolLessons:
        """Lessons as of now; the snapshot does not change when more is learned."""
        self._look()
        tenant_lessons = self._tenants.get(self._owner(tenant))
        return ToolLessons(dict(tenant_lessons.lessons) if tenant_lessons is not None and self._is_on else {})

    def with_learned_schemas(
        self, specs: Sequence[ToolSpec], tenant: str = "", *, is_closed: bool = False
    ) -> Sequence[ToolSpec]:
        """The tools, each with what it was seen to return for its output schema; to be shown, not to reject by.

        Where it `is_closed`, objects have no other keys than those that were seen.
        """
        schemas = self.snapshot(tenant).schemas(specs, is_closed=is_closed)
        if not schemas:
            return specs
        return tuple(
            replace(spec, output_schema=schemas[spec.name]) if spec.name in schemas else spec for spec in specs
        )

    async def index(self, index: Index, tenant: str = "") -> Index:
        """The same tools with what was learned of them, to search in."""
        await self.read(tenant)
        return self.index_now(index, tenant)

    def index_now(self, index: Index, tenant: str = "") -> Index:
        """The same without what has not been read yet."""
        known = self._tenants.get(self._owner(tenant))
        if known is None or not self._is_on or not known.lessons:
            return index.with_embedder(self._embeddings)
        if known.index is None or known.index[0] is not index or known.index[1] != known.changes:
            specs = self.with_learned_schemas(index.specs, tenant)
            updated_index = index.updated(specs, uses=self.snapshot(tenant).uses)
            known.index = (index, known.changes, updated_index.with_embedder(self._embeddings))
        return known.index[2]


def create_learning(learn: bool | Learning, store: object, embedder: Embedder | None) -> Learning:
    """The `Learning` of one runtime: a shared one, or one that stores its lessons in `store` if that can hold them."""
    if isinstance(learn, Learning):
        return learn
    return Learning(store if isinstance(store, Lessons) else None, is_on=learn, embedder=embedder)
