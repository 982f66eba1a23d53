"""The other processes that share the ledger, as the executions of this one see them."""

from __future__ import annotations

from typing import Protocol

from toolfold.doors.http.forwarded import ForwardedRequest, Passed
from toolfold.doors.http.held import Gone


class Moved(Exception):
    """Another process had the execution in the meantime, so look for it again."""


class Peers(Protocol):
    """Who else may hold an execution. `Replicas` is the real one, `Alone` a process without others."""

    @property
    def are_there(self) -> bool:
        """Whether there may be any."""

    async def claim(self, execution_id: str) -> bool:
        """Hold an execution before it begins, until `unclaim`; false if another process does already."""

    def unclaim(self, execution_id: str) -> None:
        """It has begun, or never will."""

    async def pass_on(self, execution_id: str, request: ForwardedRequest) -> Passed | None:
        """The answer of whoever holds an execution; `None` where only this process may."""

    async def tell_others(self, request: ForwardedRequest) -> None:
        """The same request to all of them."""

    async def release(self, executions: list[str]) -> None:
        """Others may take these over at once."""

    async def enter_session(self, session: str, turn: str, gone: Gone | None = None) -> None:
        """Wait until no execution of another process has the session."""

    def leave_session(self, session: str, *, is_lost: bool) -> None:
        """Give its turn back, unless another process continues the execution."""


class Alone:
    """No other process: everything is here, or on record."""

    are_there = False

    async def claim(self, execution_id: str) -> bool:
        return True

    def unclaim(self, execution_id: str) -> None:
        pass

    async def pass_on(self, execution_id: str, request: ForwardedRequest) -> Passed | None:
        return None

    async def tell_others(self, request: ForwardedRequest) -> None:
        pass

    async def release(self, executions: list[str]) -> None:
        pass

    async def enter_session(self, session: str, turn: str, gone: Gone | None = None) -> None:
        pass

    def leave_session(self, session: str, *, is_lost: bool) -> None:
        pass
