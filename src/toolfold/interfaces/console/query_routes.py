"""Query routes of the console: executions, calls, files, questions, tools and savings, and saved programs."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import quote

import msgspec
from fastapi import Query, Request, Response

from toolfold.errors import UsageError
from toolfold.interfaces.config_runtime import BridgedRuntime
from toolfold.interfaces.console import json_shapes
from toolfold.interfaces.console.access import Viewer, hidden_tools, require_visible
from toolfold.interfaces.console.live_updates import Routes, read_body, word_index_of
from toolfold.interfaces.http.outcome_bodies import Refusal
from toolfold.interfaces.http.responses import json_response
from toolfold.ledger.base import ExecutionFilter, ExecutionHistory, ExecutionSummary
from toolfold.ledger.execution_summaries import Statistics, ToolUse, parse_search
from toolfold.models import MIB, Json
from toolfold.programs.library import ProgramFolders
from toolfold.programs.parameters import propose_parameters
from toolfold.programs.proof import library_of, save, verify
from toolfold.programs.saved_program import SavedProgram
from toolfold.prompts.python_stubs import signature
from toolfold.service.answer_memory import BoundedMemory

_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
_CACHED: Final = 4
_COSTED: Final = 100
_COSTS: Final = 5000
_CACHED_BYTES: Final = 32 * MIB
_USES: Final = 3000
_SHOWN_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "text/csv")


@dataclass(eq=False)
class QueryRoutes(Routes):
    """The routes that change nothing."""

    def __post_init__(self) -> None:
        # Every ledger of ours has them; the contract of those of others need not.
        self._statistics = cast("Statistics", self._ledger)
        self._ended: BoundedMemory[str, ExecutionHistory] = BoundedMemory(_CACHED)
        self._costs: BoundedMemory[str, dict[str, Json]] = BoundedMemory(_COSTS)

    async def executions(
        self, request: Request, state: Literal["running", "paused", "ended"] | None = None, status: str | None = None,
        interface: str | None = None, tool: str | None = None, tenant: str | None = None, session: str | None = None,
        tag: str | None = None, user: str | None = None, conversation: str | None = None, model: str | None = None,
        since: float | None = None, until: float | None = None, text: str | None = None,
        q: Annotated[str, Query(max_length=1000)] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100, before: str = "", cost: bool = False,
    ) -> Response:  # fmt: skip
        """List executions, newest first.

        Every filter may be combined with the others; `before` is the id of the last one of the page before. `q` is what
        people type: words and "exact words" anywhere in the record, and operators such as `tool:name` and `since:2d`.
        With `cost`, each row says what its program cost; then there are at most 100.
        """
        viewer = await self._access.viewer(request)
        if viewer.tenant is not None:
            tenant = viewer.tenant
        search_filter = ExecutionFilter(
            state=state, status=status, interface=interface, tool=tool, tenant=tenant, session=session, tag=tag,
            user=user, conversation=conversation, model=model, since=since, until=until, text=text,
        )  # fmt: skip
        if q:
            fields = parse_search(q, time.time())
            if viewer.tenant is not None:
                fields["tenant"] = viewer.tenant
            search_filter = replace(search_filter, **fields)
        # Not waited for: whoever also listens is told to read again once it knows the calls of those that run.
        self._watch.begin()
        limit = min(limit, _COSTED) if cost else limit
        summaries = await self._ledger.search(search_filter, limit=limit, before=before)
        rows = []
        for summary in summaries:
            live = self._watch.live.get(summary.execution_id)
            is_live = live is not None and summary.state != "ended"
            row = live.row() if live is not None and is_live else json_shapes.of_summary(summary)
            rows.append(json_shapes.without_arguments(row, hidden=self._is_hidden))
            if cost:
                rows[-1]["cost"] = await self._cost(summary)
        return json_response(
            200,
            {
                "executions": rows,
                "next": summaries[-1].execution_id if len(summaries) == limit else None,
                "unindexed": await self._unindexed() if search_filter.words else 0,
            },
        )

    async def _cost(self, summary: ExecutionSummary) -> Json:
        known = self._costs.get(summary.execution_id)
        if known is not None or summary.state != "ended":
            return known
        history = await self._ledger.load(summary.execution_id)
        found = None if history is None else json_shapes.cost_of(history, self._price_table)
        if found is not None:
            self._costs.put(summary.execution_id, found)
        return found

    async def _unindexed(self) -> int:
        """How many executions the search does not know yet."""
        index = word_index_of(self._ledger)
        return 0 if index is None else await asyncio.to_thread(index.pending)

    async def execution(self, request: Request, execution_id: str) -> Response:
        """One execution: its program, its events so far, its outcome; `place` is where its stream goes on."""
        viewer = await self._access.viewer(request)
        history = await self.history(viewer, execution_id)
        story = await self._ledger.story(execution_id)
        body = json_shapes.of_history(history, hidden=self._is_hidden)
        assert story is not None
        events = json_shapes.of_entries(story.entries, hidden=self._is_hidden)
        events += json_shapes.of_lost(history, hidden=self._is_hidden)
        tool_names = {spec.name for spec in self._runtime.tools} - hidden_tools(self._runtime, viewer)
        used = {event["tool"] for event in events if "tool" in event}
        missing = sorted(str(name) for name in used - tool_names)
        more = {"events": events, "place": story.place, "missing_tools": missing, "may_act": "run" in viewer.roles}
        return json_response(200, {**body, **more, "cost": json_shapes.cost_of(history, self._price_table)})

    async def call(self, request: Request, execution_id: str, call_id: int) -> Response:
        """One call with its arguments and its reply; of a large value the beginning and its size."""
        history = await self.history(await self._access.viewer(request), execution_id)
        body = json_shapes.of_call(history, call_id, hidden=self._is_hidden)
        if body is None:
            raise Refusal(404, f"execution {execution_id!r} has no call {call_id}")
        return json_response(200, body)

    async def file(self, request: Request, execution_id: str, name: str) -> Response:
        """A file that the program began with or made, as a download."""
        history = await self.history(await self._access.viewer(request), execution_id)
        if self._is_hidden:
            raise Refusal(403, "this console hides the files of programs")
        files = (*(history.outcome.files if history.outcome is not None else ()), *history.start_record.files)
        match = next((file for file in files if file.name == name), None)
        if match is None:
            raise Refusal(404, "no such file")
        # What could run in a browser goes there as bytes, to be saved.
        media_type = match.mime if match.mime in _SHOWN_TYPES else "application/octet-stream"
        kind = "inline" if match.mime in _SHOWN_TYPES else "attachment"
        headers = {"Content-Disposition": f"{kind}; filename*=UTF-8''{quote(match.name.rsplit('/', 1)[-1])}"}
        return Response(match.data, media_type=media_type, headers=headers)

    async def download(self, request: Request, execution_id: str, format: Literal["json", "html"] = "json") -> Response:
        """A run with its calls as a file: JSON, or an HTML page that opens offline and holds no scripts."""
        history = await self.history(await self._access.viewer(request), execution_id)
        run = await asyncio.to_thread(json_shapes.of_run, history, hidden=self._is_hidden)
        disposition = f"attachment; filename*=UTF-8''{quote(f'toolfold-{execution_id}.{format}', safe='')}"
        if format == "json":
            return json_response(200, run, {"Content-Disposition": disposition})
        body = await asyncio.to_thread(json_shapes.page_of_run, run)
        return Response(body, media_type="text/html", headers={"Content-Disposition": disposition})

    async def approvals(self, request: Request) -> Response:
        """Every call that waits for a person, the oldest first."""
        viewer = await self._access.viewer(request)
        await self._watch.ready()
        return json_response(200, {"approvals": self.questions(viewer), "may_act": "approve" in viewer.roles})

    def questions(self, viewer: Viewer) -> list[dict[str, Any]]:
        return [
            {
                **json_shapes.of_question(call, hidden=self._is_hidden), "execution_id": live.start_record.execution_id,
                "epoch": live.epoch, "interface": live.start_record.interface, "began_at": live.start_record.began_at,
                "program_line": _line(live.start_record.program.sent_text, call.facts.get("line", 0)),
            }
            for live, call in self._watch.waiting(viewer.tenant)
        ]  # fmt: skip

    async def overview(self, request: Request) -> Response:
        """How many run and wait, and how many failed in the last hour."""
        viewer = await self._access.viewer(request)
        await self._watch.ready()
        counts = await self._statistics.counts(time.time() - _HOUR, viewer.tenant)
        return json_response(200, {
            **self._figures(viewer), "failed": counts["failed"], "recent": counts["recent"],
            "may_act": viewer.roles != {"read"}, "roles": sorted(viewer.roles),
            "is_sealed": self._ledger.is_sealed,
            "searches_all": word_index_of(self._ledger) is not None, "tenant": viewer.tenant,
        })  # fmt: skip

    async def savings(self, request: Request, days: Annotated[float, Query(gt=0, le=366)] = 7.0) -> Response:
        """What stayed out of models' contexts and what was lost, over time, by interface and by tool, in bytes."""
        viewer = await self._access.viewer(request)
        since = time.time() - days * _DAY
        bucket = _HOUR if days <= 2 else _DAY
        rows = await self._statistics.savings(since, bucket, viewer.tenant)
        by_tool: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for at, use in await self._statistics.uses(_USES, viewer.tenant):
            if at >= since:
                by_tool[use.tool][0] += use.calls
                by_tool[use.tool][1] += use.bytes_out
        return json_response(200, {
            "bucket_seconds": bucket,
            "buckets": [
                {"at": at, "interface": interface, "executions": count, "saved_bytes": gain, "lost_bytes": loss}
                for at, interface, count, gain, loss in rows
            ],
            "tools": [
                {"tool": tool, "calls": calls, "reply_bytes": size}
                for tool, (calls, size) in sorted(by_tool.items(), key=lambda item: -item[1][1])[:50]
            ],
        })  # fmt: skip

    async def tools(self, request: Request, q: str = "") -> Response:
        """The tools that programs have, with what was seen of them lately; `q` searches as programs do."""
        viewer = await self._access.viewer(request)
        by_tool: dict[str, list[tuple[float, ToolUse]]] = defaultdict(list)
        for at, use in await self._statistics.uses(_USES, viewer.tenant):
            by_tool[use.tool].append((at, use))
        hidden = hidden_tools(self._runtime, viewer)
        specs = {spec.name: spec for spec in self._runtime.tools if spec.name not in hidden}
        if q.strip():
            hits = self._runtime.catalog.search(q[:400], limit=50, detail="name")
            specs = {hit["name"]: specs[hit["name"]] for hit in hits if hit["name"] in specs}
        tool_bodies = [
            json_shapes.of_tool(spec, by_tool.get(spec.name, ()), hidden=self._is_hidden) for spec in specs.values()
        ]
        # Only the operator's: a tenant is told neither which servers there are nor why one failed.
        servers = self._runtime.servers if viewer.tenant is None and isinstance(self._runtime, BridgedRuntime) else ()
        status = [
            {"name": server.name, "state": server.state, "tools": server.tools, "detail": server.detail}
            for server in servers
        ]
        may_try = "run" in viewer.roles and viewer.tenant is None
        return json_response(200, {"tools": tool_bodies, "servers": status, "may_act": may_try})

    async def history(self, viewer: Viewer, execution_id: str) -> ExecutionHistory:
        """The record of an execution that the viewer may see; those that have ended are cached."""
        history = self._ended.get(execution_id)
        if history is None:
            history = await self._ledger.load(execution_id)
            if history is not None and history.state == "ended" and _size(history) <= _CACHED_BYTES:
                self._ended.put(execution_id, history)
        return require_visible(viewer, history, execution_id)


def _size(history: ExecutionHistory) -> int:
    return 0 if history.outcome is None else sum(call.bytes_in + call.bytes_out for call in history.outcome.calls)


def _line(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""


# ----------------------------------------------------------------------------------------------------
# Saved programs: what there is, saving the program of a run, and what models propose.


class _Saving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


@dataclass(eq=False)
class ProgramRoutes(Routes):
    """A tenant has its own and reads the shared ones; the operator has the shared ones."""

    async def programs(self, request: Request) -> Response:
        """Saved programs, with what no longer fits the record of each, and proposals of models."""
        viewer = await self._access.viewer(request)
        folders, tenant = self._runtime.catalog.programs, viewer.tenant or ""
        if not isinstance(folders, ProgramFolders):
            return json_response(200, {"has_library": False, "programs": [], "proposals": [], "may_act": False})
        specs = self._runtime.tools
        body = {
            "has_library": True,
            "programs": [_shown(program, folders.problems(program, specs)) for program in folders.programs(tenant)],
            "proposals": [_shown(program, []) for program in folders.proposals(tenant)],
            "may_act": "run" in viewer.roles,
        }
        return json_response(200, body)

    async def parameters(self, request: Request, execution_id: str) -> Response:
        """Literals of a program that could become parameters, as they were passed to tools."""
        viewer = await self._access.viewer(request)
        start = require_visible(viewer, await self._ledger.load(execution_id), execution_id).start_record
        if self._is_hidden:
            raise Refusal(403, "this console hides arguments, and programs that are saved show them")
        proposals = propose_parameters(start.program.text, start.tools) if start.program.language == "python" else []
        rows = {item.name: {"name": item.name, "value": item.value, "line": item.line} for item in proposals}
        return json_response(200, {"parameters": [*rows.values()]})

    async def save(self, request: Request, execution_id: str) -> Response:
        """Save the program of a run as a tool: `{"name", "description", "parameters": {"month": 3}}`."""
        viewer = await self._access.actor(request, "run")
        require_visible(viewer, await self._ledger.load(execution_id), execution_id)
        body = await read_body(request, _Saving)
        try:
            program = await save(
                self._runtime, execution_id, body.name, description=body.description, parameters=body.parameters,
                tenant=viewer.tenant or "",
            )  # fmt: skip
        except UsageError as error:
            raise Refusal(409, str(error)) from error
        return json_response(201, _shown(program, []))

    async def test(self, request: Request, name: str) -> Response:
        """Test a program against its record; no tool is called."""
        viewer = await self._access.actor(request, "run")
        try:
            (verdict,) = await verify(self._runtime, [name], tenant=viewer.tenant or "")
        except UsageError as error:
            raise Refusal(404, str(error)) from error
        return json_response(200, {"problems": [*verdict.problems]})

    async def accept(self, request: Request, name: str) -> Response:
        """Accept a program that a model proposed: from now on it can be called."""
        viewer = await self._access.actor(request, "approve")
        try:
            program = library_of(self._runtime).accept(name, viewer.tenant or "")
        except UsageError as error:
            raise Refusal(409, str(error)) from error
        return json_response(200, _shown(program, []))

    async def reject(self, request: Request, name: str) -> Response:
        """Forget a program that a model proposed."""
        viewer = await self._access.actor(request, "approve")
        try:
            library_of(self._runtime).reject(name, viewer.tenant or "")
        except UsageError as error:
            raise Refusal(409, str(error)) from error
        return json_response(200, {"name": name})


def _shown(program: SavedProgram, problems: list[str]) -> dict[str, Json]:
    return {
        "name": program.name,
        "version": program.version,
        "description": program.description,
        "signature": signature(program.as_tool().spec),
        "text": program.text,
        "tools": [*program.tools],
        "problems": problems,
    }
