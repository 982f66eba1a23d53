"""JSON of the console's API from the ledger: executions, events, calls, questions and tools; a run as a page. Pure.

Text of programs and tools stays text: whoever shows it must not make it markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import msgspec

from toolfold.execution.outcome import BYTES_PER_TOKEN, ENTRY_NAME, code_size
from toolfold.ledger.base import CallEntry, DecisionEntry, Entry, ExecutionHistory, ExecutionSummary, Moment, ReplyEntry
from toolfold.ledger.execution_summaries import ToolUse
from toolfold.ledger.remote_approval import arguments_digest
from toolfold.models import NOTHING_RAN, CallRecord, File, Json, Outcome, Prices, Problem, ToolSpec, Value
from toolfold.outcome_views import value_as_json
from toolfold.prompts.python_stubs import signature
from toolfold.tools.sendable_values import json_size

_ERROR_CHARACTERS: Final = 2000
_FOLDED_BYTES: Final = 256 * 1024
_HEAD_CHARACTERS: Final = 32 * 1024
_TEXT_CHARACTERS: Final = 512 * 1024

_RUN_BYTES: Final = 24 * 1024 * 1024
_CUT_CHARACTERS: Final = 500
_PREVIEW_CHARACTERS: Final = 120
_PREVIEW_ITEMS: Final = 4

_HIDDEN: Final = "hidden by console.hide_arguments"
_DIRECT: Final = re.compile(r"(await [^\s(]+\().*", re.DOTALL)

_SUMMARY: Final = tuple(field.name for field in fields(ExecutionSummary))
_START: Final = (
    "execution_id", "began_at", "interface", "engine", "isolation", "session", "tenant", "rerun_of", "is_direct",
    "title", "tags", "user", "conversation", "model",
)  # fmt: skip
_LIMITS: Final = ("wall_seconds", "calls", "memory_bytes", "output_bytes")

_encode: Final = msgspec.json.Encoder().encode


def of_summary(summary: ExecutionSummary) -> dict[str, Json]:
    # Not `asdict`, which copies every lane: for a page it would take longer than to find the rows.
    return {name: getattr(summary, name) for name in _SUMMARY}


def without_arguments(row: dict[str, Json], *, hidden: bool) -> dict[str, Json]:
    """A row whose first line may be a direct call, which is recorded as a program with its arguments in it."""
    return {**row, "first_line": _without_arguments(str(row["first_line"]))} if hidden else row


def _without_arguments(program: str) -> str:
    return _DIRECT.sub(r"\1…)", program) if _DIRECT.fullmatch(program) else program


def of_entries(entries: Iterable[Entry], *, hidden: bool) -> list[dict[str, Json]]:
    """Events in their order; without arguments and replies, which are asked for one by one."""
    return [event for event in (_event(entry, hidden=hidden) for entry in entries) if event is not None]


def _event(entry: Entry, *, hidden: bool) -> dict[str, Json] | None:
    match entry:
        case CallEntry():
            call = entry.call
            return {
                "type": "called", "id": call.id, "tool": call.tool, "line": call.line, "within": call.within,
                "at": round(entry.at, 6),
                "preview": "" if hidden else preview(call.arguments),
            }  # fmt: skip
        case ReplyEntry():
            return _reply_event(entry.record, hidden=hidden)
        case DecisionEntry():
            return {
                "type": "decided", "id": entry.call_id, "approved": entry.approved, "reason": entry.reason,
                "by": entry.by, "under": entry.under,
            }  # fmt: skip
        case Moment(kind="printed"):
            stream = entry.facts.get("stream")
            text = _HIDDEN if hidden and stream == "stderr" else entry.text
            return {"type": "printed", "at": entry.at, "stream": stream, "text": text}
        case Moment(kind="asked"):
            facts = entry.facts
            return {
                "type": "asked", "id": entry.call_id, "at": entry.at, "tool": facts.get("tool"),
                "line": facts.get("line", 0), "within": facts.get("within", 0),
                "preview": "" if hidden else preview(facts.get("arguments", {})),
                "expires": _expiry(entry),
            }  # fmt: skip
        case Moment(kind="retried"):
            return {
                "type": "retried", "id": entry.call_id, "at": entry.at, "attempt": entry.facts.get("attempt", 0),
                "error": _HIDDEN if hidden else entry.text[:_ERROR_CHARACTERS],
            }  # fmt: skip
        case Moment(kind="ticked"):
            return None
        case Moment():
            return {"type": entry.kind, "at": entry.at}
    return None


def _reply_event(record: CallRecord, *, hidden: bool) -> dict[str, Json]:
    error = None if record.error is None else _HIDDEN if hidden else record.error[:_ERROR_CHARACTERS]
    return {
        "type": "replied", "id": record.id, "tool": record.name, "line": record.line,
        "within": record.within,
        "at": round(record.started_seconds, 6), "seconds": round(record.seconds, 6),
        "error": error, "preview": "" if hidden else preview(record.arguments),
        "bytes_in": record.bytes_in, "bytes_out": record.bytes_out, "attempts": record.attempts,
        "cached": record.cached, "from_record": record.from_record, "edited": record.used_arguments is not None,
    }  # fmt: skip


def of_lost(history: ExecutionHistory, *, hidden: bool) -> list[dict[str, Json]]:
    """Calls that only the outcome knows: there was more than the ledger keeps of one execution."""
    if not history.is_full or history.outcome is None:
        return []
    recorded_ids = {entry.record.id for entry in history.entries if isinstance(entry, ReplyEntry)}
    return [_reply_event(record, hidden=hidden) for record in history.outcome.calls if record.id not in recorded_ids]


def of_history(history: ExecutionHistory, *, hidden: bool) -> dict[str, Json]:
    start_record = history.start_record
    program = start_record.program.sent_text
    return {
        **{name: getattr(start_record, name) for name in _START}, "state": history.state, "epoch": history.epoch,
        "is_whole": history.is_whole,
        "program": _without_arguments(program) if hidden and start_record.is_direct else program,
        "language": start_record.program.language,
        "tools": [spec.name for spec in start_record.tools], "files": _files(start_record.files),
        "limits": {name: getattr(start_record.limits, name) for name in _LIMITS},
        "outcome": None if history.outcome is None else of_outcome(history.outcome, hidden=hidden),
    }  # fmt: skip


def cost_of(history: ExecutionHistory, price_table: Mapping[str, Prices]) -> dict[str, Json] | None:
    """Tokens that a model wrote and read for one program, estimated; in dollars where the table has its model.

    `saved_dollars` is what direct calls would have cost more, counted as `ContextSaved` counts.
    """
    outcome, start_record = history.outcome, history.start_record
    if outcome is None:
        return None
    written = len(ENTRY_NAME) + code_size(start_record.program.sent_text)
    read = len((outcome.stdout + outcome.stderr).encode(errors="replace"))
    read += 0 if outcome.value is None else json_size(outcome.value)
    calls = outcome.calls if outcome.status == "finished" else ()
    prices = Prices.find(price_table, start_record.model)
    dollars = direct = 0.0
    if prices is not None:
        dollars = _dollars(prices, read, written)
        direct = _dollars(
            prices, sum(call.bytes_out for call in calls), sum(len(call.name) + call.bytes_in for call in calls)
        )
    return {
        "written_tokens": round(written / BYTES_PER_TOKEN), "read_tokens": round(read / BYTES_PER_TOKEN),
        "dollars": None if prices is None else dollars, "saved_dollars": None if prices is None else direct - dollars,
    }  # fmt: skip


def _dollars(prices: Prices, read_bytes: int, written_bytes: int) -> float:
    input_tokens, output_tokens = round(read_bytes / BYTES_PER_TOKEN), round(written_bytes / BYTES_PER_TOKEN)
    return prices.of(input_tokens=input_tokens, output_tokens=output_tokens)


def _files(files: Iterable[File]) -> list[dict[str, Json]]:
    return [{"name": file.name, "mime": file.mime, "size": file.size} for file in files]


def of_outcome(outcome: Outcome, *, hidden: bool) -> dict[str, Json]:
    """An outcome with its output; its calls are events."""
    return {
        "status": outcome.status,
        "seconds": outcome.seconds,
        "value": None if hidden or outcome.value is None else fold_value(outcome.value),
        "stdout": outcome.stdout[:_TEXT_CHARACTERS],
        # Ends with the traceback of what was raised.
        "stderr": _HIDDEN if hidden and outcome.stderr else outcome.stderr[:_TEXT_CHARACTERS],
        # What the check says is about the text, which is shown; what was raised may quote an argument.
        "problem": of_problem(outcome.problem, hidden=hidden and outcome.status not in NOTHING_RAN),
        "files": _files(outcome.files),
        "context_saved": asdict(outcome.context_saved),
        "hints": list(outcome.hints),
        "unmade_calls": list(outcome.unmade_calls),
    }


def of_problem(problem: Problem | None, *, hidden: bool = False) -> dict[str, Json] | None:
    if problem is None:
        return None
    message = _HIDDEN if hidden else problem.message
    return {"kind": problem.kind, "message": message, "line": problem.line, "column": problem.column}


def of_call(history: ExecutionHistory, call_id: int, *, hidden: bool) -> dict[str, Json] | None:
    """One call with its arguments and its reply; `None` if there is none."""
    entries = history.entries
    calls = (entry.call for entry in entries if isinstance(entry, CallEntry) and entry.call.id == call_id)
    replies = (entry for entry in entries if isinstance(entry, ReplyEntry) and entry.record.id == call_id)
    moments = (entry for entry in entries if isinstance(entry, Moment))
    questions = (entry for entry in moments if entry.kind == "asked" and entry.call_id == call_id)
    lost_calls = (event for event in of_lost(history, hidden=hidden) if event["id"] == call_id)
    call, reply_entry = next(calls, None), next(replies, None)
    if reply_entry is not None:
        event = _event(reply_entry, hidden=hidden)
        arguments: Mapping[str, Value] = reply_entry.record.arguments
        assert event is not None
        body = {**event, "reply": None if reply_entry.reply.error is not None else reply_entry.reply.value}
    elif call is not None:
        arguments = call.arguments
        body = {"type": "called", "id": call.id, "tool": call.tool, "line": call.line, "within": call.within}
    elif (question := next(questions, None)) is not None:
        arguments = question.facts.get("arguments", {})
        body = _event(question, hidden=hidden) or {}
    elif (lost_call := next(lost_calls, None)) is not None:
        arguments, body = {}, {**lost_call, "lost": True}
    else:
        return None
    specs = (spec for spec in history.start_record.tools if spec.name == body["tool"])
    body["python_name"] = next((spec.python_name for spec in specs), body["tool"])
    if hidden:
        return {**body, "reply": None, "arguments": None, "hidden": True}
    used = reply_entry.record.used_arguments if reply_entry is not None else None
    return {
        **body,
        "arguments": fold_value(dict(arguments)),
        "used_arguments": None if used is None else fold_value(dict(used)),
        "reply": fold_value(body["reply"]) if "reply" in body else None,
    }


def of_run(history: ExecutionHistory, *, hidden: bool) -> dict[str, Json]:
    """An execution with all of its calls, for a file; once there is much, of further values only the beginning."""
    by_call: dict[int, list[Entry]] = {}
    for entry in history.entries:
        match entry:
            case CallEntry():
                by_call.setdefault(entry.call.id, []).append(entry)
            case ReplyEntry():
                by_call.setdefault(entry.record.id, []).append(entry)
            case DecisionEntry() | Moment(kind="asked"):
                by_call.setdefault(entry.call_id, []).append(entry)
    calls: list[dict[str, Json]] = []
    room = _RUN_BYTES
    for call_id, entries in by_call.items():
        body = of_call(replace(history, entries=tuple(entries)), call_id, hidden=hidden)
        if body is None:
            continue
        decisions = [_event(entry, hidden=hidden) for entry in entries if isinstance(entry, DecisionEntry)]
        body["decision"] = decisions[-1] if decisions else None
        for name in ("arguments", "used_arguments", "reply"):
            room -= (folded := body.get(name) or {}).get("bytes", 0) if room > 0 else 0
            if room <= 0 and "json" in folded:
                body[name] = {"head": _encode(folded["json"]).decode()[:_CUT_CHARACTERS], "bytes": folded["bytes"]}
        calls.append(body)
    calls += [{**lost, "lost": True} for lost in of_lost(history, hidden=hidden)]
    calls.sort(key=lambda call: call["id"])
    return {**of_history(history, hidden=hidden), "calls": calls}


def _expiry(question: Moment) -> float | None:
    """When a call that waits is refused, in seconds since the start of its execution; not always known."""
    wait_seconds = question.facts.get("wait_seconds")
    return question.at + wait_seconds if isinstance(wait_seconds, int | float) else None


def of_question(question: Moment, *, hidden: bool) -> dict[str, Json]:
    arguments = question.facts.get("arguments", {})
    return {
        "call_id": question.call_id, "tool": question.facts.get("tool", ""), "line": question.facts.get("line", 0),
        "at": question.at, "expires": _expiry(question), "arguments": None if hidden else fold_value(arguments),
        "digest": arguments_digest(arguments),
    }  # fmt: skip


def fold_value(value: Value) -> dict[str, Json]:
    """A value as JSON; of a large one the beginning as text, and its size."""
    json_value = value_as_json(value)
    body = _encode(json_value)
    if len(body) <= _FOLDED_BYTES:
        return {"json": json_value, "bytes": len(body)}
    return {"head": body[: _HEAD_CHARACTERS * 2].decode(errors="ignore")[:_HEAD_CHARACTERS], "bytes": len(body)}


def preview(arguments: Mapping[str, Value]) -> str:
    """The beginning of a call's arguments, as a program writes them; quick even if they are large."""
    parts: list[str] = []
    room = _PREVIEW_CHARACTERS
    for name, value in arguments.items():
        if room <= 0:
            parts.append("…")
            break
        parts.append(f"{name[:_PREVIEW_CHARACTERS]}={_preview_value(value)}")
        room -= len(parts[-1])
    # A string of a program may have half a character in it.
    text = ", ".join(parts).encode(errors="replace").decode()
    return text if len(text) <= _PREVIEW_CHARACTERS else f"{text[: _PREVIEW_CHARACTERS - 1]}…"


def _preview_value(value: Value, depth: int = 0) -> str:
    match value:
        case str():
            return json.dumps(value[:_PREVIEW_CHARACTERS], ensure_ascii=False)
        case bool() | None | float():
            return str(value)
        case int():
            return str(value) if value.bit_length() < 200 else "…"
        case Mapping() if depth < 2:
            items = islice(value.items(), _PREVIEW_ITEMS)
            inner = [f"{str(key)[:40]}: {_preview_value(item, depth + 1)}" for key, item in items]
            return f"{{{', '.join(inner)}{', …' if len(value) > len(inner) else ''}}}"
        case list() | tuple() if depth < 2:
            inner = [_preview_value(item, depth + 1) for item in value[:_PREVIEW_ITEMS]]
            return f"[{', '.join(inner)}{', …' if len(value) > len(inner) else ''}]"
    return "…"


def of_tool(spec: ToolSpec, uses: Iterable[tuple[float, ToolUse]], *, hidden: bool) -> dict[str, Json]:
    calls = failed = 0
    seconds: list[float] = []
    errors: list[dict[str, Json]] = []
    last_at = breaker_at = 0.0
    breaker = ""
    for at, use in uses:
        if use.breaker and at > breaker_at:
            breaker, breaker_at = use.breaker, at
        calls += use.calls
        failed += use.failed
        seconds.extend(use.seconds)
        last_at = max(last_at, at)
        if use.error and len(errors) < 3:
            errors.append({"at": at, "error": _HIDDEN if hidden else use.error})
    seconds.sort()
    return {
        "name": spec.name, "python_name": spec.python_name, "domain": spec.domain, "description": spec.description,
        "source": spec.source, "read_only": spec.read_only, "destructive": spec.destructive,
        "signature": signature(spec), "input_schema": dict(spec.input_schema),
        "calls": calls, "failed": failed, "last_at": last_at,
        "p50": _quantile(seconds, 0.5), "p95": _quantile(seconds, 0.95), "errors": errors,
        "breaker": {"did": breaker, "at": breaker_at} if breaker else None,
    }  # fmt: skip


# Any: figures.
def _quantile(ordered: list[float], share: float) -> Any:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


# ----------------------------------------------------------------------------------------------------
# One run as an HTML document that opens offline.
#
# 1. Text of programs and tools is hostile: all goes through `_text`, and none into a tag, an attribute or a style.
# 2. The document has no script, and its own policy allows none, nor anything from elsewhere.

_MOST_BARS: Final = 2000
_BAR: Final = 10
_WIDTH: Final = 1000
_UNSHOWN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn around the text beside them."""
_STYLE: Final = """
:root { color-scheme: light dark; } body { font: 14px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto;
padding: 0 1em; } pre, code, summary { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: color-mix(in srgb, currentColor 6%, transparent);
padding: 8px 12px; border-radius: 8px; margin: 4px 0; } h1 { font-size: 1.4em; overflow-wrap: anywhere; }
h2 { font-size: 1.05em; margin: 1.6em 0 .4em; } dl { display: grid; grid-template-columns: max-content 1fr;
gap: 2px 18px; } dd { margin: 0; overflow-wrap: anywhere; } details { border-top: 1px solid color-mix(in srgb,
currentColor 20%, transparent); padding: 4px 0; } summary { cursor: pointer; } .bad { color: #c22; }
ol.program { padding-left: 4em; } ol.program li { white-space: pre-wrap; overflow-wrap: anywhere; }
svg { width: 100%; background: color-mix(in srgb, currentColor 6%, transparent); border-radius: 8px; }
rect { fill: #4a5bd4; } rect.bad { fill: #c22; } .soft { opacity: .75; }
"""
_POLICY: Final = (
    "default-src 'none'; style-src 'sha256-" + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode() + "'"
)


# Any: JSON, here and below.
def page_of_run(run: Mapping[str, Any]) -> bytes:
    """The document of a run with its `calls`, as `of_run` has them."""
    outcome = run["outcome"] or {}
    title = run["title"] or run["execution_id"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)} · toolfold</title><style>{_STYLE}</style></head><body><main><h1>{_text(title)}</h1>",
        _facts(run, outcome),
        _problem(outcome),
        _section("Calls over time", _timeline(run["calls"])),
        _section("Program", _program(run["program"])),
        _section("Output", _pre(outcome.get("stdout"))),
        _section("Errors", _pre(outcome.get("stderr"), "bad")),
        _section("Value", _value(outcome.get("value"))),
        _section(f"Calls ({len(run['calls'])})", "".join(map(_call, run["calls"]))),
        "</main></body></html>\n",
    ]
    return "".join(parts).encode(errors="replace")


# Any: of any type, shown as text.
def _text(value: Any) -> str:
    shown = _UNSHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(value))
    return html.escape(shown)


def _pre(text: str | None, kind: str = "") -> str:
    return f'<pre class="{kind}">{_text(text)}</pre>' if text else ""


def _section(title: str, body: str) -> str:
    return f"<h2>{title}</h2>{body}" if body else ""


def _facts(run: Mapping[str, Any], outcome: Mapping[str, Any]) -> str:
    began = datetime.fromtimestamp(run["began_at"], UTC).isoformat(sep=" ", timespec="seconds")
    rows = {
        "id": run["execution_id"], "status": outcome.get("status", run["state"]), "started": began,
        "took": f"{outcome['seconds']:.3f} s" if outcome else "", "tags": ", ".join(run["tags"]),
        **{name: run[name] for name in ("interface", "engine", "session", "tenant", "user", "conversation", "model")},
    }  # fmt: skip
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{_text(value)}</dd>' for name, value in rows.items() if value)}</dl>"


def _problem(outcome: Mapping[str, Any]) -> str:
    problem = outcome.get("problem")
    if problem is None:
        return ""
    line = f"line {problem['line']}: " if problem["line"] else ""
    return _pre(line + problem["message"], "bad")


def _program(text: str) -> str:
    return f'<ol class="program">{"".join(f"<li><code>{_text(line)}</code></li>" for line in text.splitlines())}</ol>'


def _timeline(calls: Iterable[Mapping[str, Any]]) -> str:
    """Calls in lanes: a call takes the first lane that is free."""
    bars = [(call["at"], call["seconds"], bool(call["error"])) for call in calls if "seconds" in call][:_MOST_BARS]
    end = max((at + seconds for at, seconds, _ in bars), default=0.0)
    if end <= 0:
        return ""
    free: list[float] = []
    rects: list[str] = []
    for at, seconds, failed in sorted(bars):
        lane = next((lane for lane, until in enumerate(free) if until <= at), len(free))
        free[lane : lane + 1] = [at + seconds]
        x, width = _WIDTH * at / end, max(1.5, _WIDTH * seconds / end)
        kind = ' class="bad"' if failed else ""
        rects.append(f'<rect{kind} x="{x:.2f}" y="{lane * _BAR + 1}" width="{width:.2f}" height="{_BAR - 2}"/>')
    height = len(free) * _BAR
    box = f'viewBox="0 0 {_WIDTH} {height}" height="{height * 1.4:.0f}" preserveAspectRatio="none"'
    return f'<svg {box} role="img" aria-label="Calls over time">{"".join(rects)}</svg><div>0 to {end:.3f} s</div>'


def _call(call: Mapping[str, Any]) -> str:
    took = f"{call['seconds']:.3f} s" if "seconds" in call else "no reply"
    head = f"#{call['id']} {call['tool']} · line {call['line']} · {took}"
    error = call.get("error")
    decision = call.get("decision")
    said = ""
    if decision is not None:
        by = f" by {decision['by']}" if decision["by"] else ""
        reason = f": {decision['reason']}" if decision["reason"] else ""
        said = f"<div>{_text(('approved' if decision['approved'] else 'denied') + by + reason)}</div>"
    kind, is_open = (' class="bad"', " open") if error else ("", "")
    hidden = "<div>Arguments and replies are hidden by the config.</div>" if call.get("hidden") else ""
    return (
        f'<details id="call-{int(call["id"])}"{is_open}><summary{kind}>{_text(head)}</summary>{said}{hidden}'
        f"{_value(call.get('used_arguments') or call.get('arguments'))}{_pre(error, 'bad')}"
        f"{'' if error else _value(call.get('reply'))}</details>"
    )


def _value(folded: Mapping[str, Any] | None) -> str:
    if folded is None:
        return ""
    if "head" in folded:
        cut = f'<div class="soft">{folded["bytes"]} bytes; only the beginning is here</div>'
        return cut + _pre(folded["head"])
    return _pre(msgspec.json.format(_encode(folded["json"]), indent=2).decode())
