"""What a caller wants of one execution, and the start that goes on record for it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import msgspec

from toolfold.errors import UsageError
from toolfold.models import Begun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from toolfold.engines.base import Engine
    from toolfold.models import CallRecord, File, Limits, Program, ToolSpec
    from toolfold.sessions import Session


class StartOptions(TypedDict, total=False):
    """The keywords of `Runtime.start`, for the two signatures that it has."""

    tools: Sequence[ToolSpec]
    files: Sequence[File]
    limits: Limits | None
    session: str
    keep_names: bool
    on_call: Callable[[CallRecord], None] | None
    tenant: str
    execution_id: str
    rerun_of: str
    repeat: Collection[str] | None
    durable: bool
    expires_at: float
    hidden: Collection[str]
    stdin: str | None
    seed: int | None
    clock: float | None


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What `run` and `start` were asked for."""

    outside: Sequence[ToolSpec] = ()
    hidden: Collection[str] = ()
    files: Sequence[File] = ()
    limits: Limits
    on_call: Callable[[CallRecord], None] | None = None
    rerun_of: str = ""
    repeat: Collection[str] | None = None
    session: Session | None = None
    can_pause: bool = False
    tenant: str = ""
    execution_id: str = ""
    expires_at: float = 0.0
    is_strict: bool = False
    is_durable: bool = False
    seed: int | None = None
    """Of the program's randomness; `None` takes a fresh one."""
    stdin: str | None = None
    clock: float | None = None
    """These two as in `Program`."""

    @property
    def is_taped(self) -> bool:
        """Whether it must be replayable. Names that live in a guest are gone with it, so they exclude a replay."""
        return (self.can_pause or self.is_durable) and not (self.session and self.session.keeps_names)

    @property
    def known_names(self) -> frozenset[str]:
        """What earlier programs of the session defined."""
        return frozenset(self.session.names) if self.session is not None else frozenset()


def begun_of(
    wish: Wish, program: Program, specs: tuple[ToolSpec, ...], *, engine: Engine, kept: Sequence[File],
    earlier: Sequence[File], door: str,
) -> Begun:  # fmt: skip
    """The start, as it goes on record, with the session's files and the earlier output that the text mentions.

    Raises:
        UsageError: there is more for standard input than a program may have.
    """
    if wish.stdin is not None or wish.clock is not None:
        program = _given(wish, program)
    brought = (*earlier, *wish.files)
    drawn = os.urandom(12)
    return Begun(
        execution_id=wish.execution_id or drawn[:8].hex(),
        program=program,
        tools=specs,
        outside=tuple([spec.name for spec in wish.outside]) if wish.outside else (),
        limits=wish.limits,
        # By name: what the caller brings takes the place of what the session has.
        files=tuple({file.name: file for file in (*kept, *brought)}.values()) if kept or brought else (),
        brought=tuple([file.name for file in brought]) if brought else (),
        seed=int.from_bytes(drawn[8:]) if wish.seed is None else wish.seed,
        engine=engine.name,
        isolation=engine.isolation,
        tenant=wish.tenant,
        session=wish.session.id if wish.session else "",
        rerun_of=wish.rerun_of,
        began_at=time.time(),
        expires_at=wish.expires_at,
        is_strict=wish.is_taped or wish.is_strict,
        door=door,
    )


def _given(wish: Wish, program: Program) -> Program:
    size, most = len((wish.stdin or "").encode("utf-8", "surrogatepass")), wish.limits.temp_bytes
    if size > most:
        raise UsageError(f"stdin has {size} bytes, more than {most}, the limit of temp_bytes; give it as a file")
    return replace(program, stdin=wish.stdin, clock=wish.clock)
