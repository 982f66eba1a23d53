"""Rendering for Pydantic AI: outcomes as `ToolReturn` or `ModelRetry`, media, and the texts a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic_ai import AudioUrl, BinaryContent, DocumentUrl, ImageUrl, ModelRetry, ToolReturn, VideoUrl
from pydantic_ai.messages import UserContent
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolfold import errors
from toolfold.errors import EngineCrashed, ToolfoldError, entry_for
from toolfold.interfaces.tool_prompt import BASH_RULE, Form, tools_text
from toolfold.models import CallRecord, Media, Outcome, Problem, ToolSpec, Value
from toolfold.prompts.schema_types import text_schema
from toolfold.prompts.wording import first_line, lessons
from toolfold.tools.learned_replies import ToolLessons
from toolfold.tools.sendable_values import is_plain
from toolfold.tools.tool import python_name

_NOTHING_CALLED: Final = "The program was not run and no tool was called. Correct it and send it whole."
_NOTHING_TO_SHOW: Final = "(the program ended; it printed nothing and has no value)"
OF_ERROR: Final[dict[type[ToolfoldError], bool]] = {
    **dict.fromkeys((errors.UsageError, errors.SealBroken), True),
    **dict.fromkeys((
        errors.ToolError, errors.ToolNotFound, errors.ToolRefused, errors.ToolArgumentsInvalid, errors.ToolTimedOut,
        errors.ToolFailed, errors.ToolUnreachable, errors.ServerHungUp, errors.AgentUnreachable, errors.ReplyUnfit,
    ), True),
    **dict.fromkeys((errors.EngineCrashed, errors.ReplayDiverged), True),
    **dict.fromkeys((errors.EngineError, errors.EngineUnavailable), False),
    **dict.fromkeys((errors.ToolfoldError, errors.Fenced, errors.LedgerFull, errors.LedgerFailed), False),
}  # fmt: skip
"""Whether a model can do something about it: write another program. A mistake in the set-up is the host's."""
_MOST_CALLS: Final = 20
_MOST_PICTURES: Final = 10


def to_return(
    outcome: Outcome, content: Iterable[UserContent] = (), notes: Mapping[str, Any] | None = None,
    revealed: Sequence[str] = (),
) -> ToolReturn[Any]:  # fmt: skip
    """Result of a finished program, with the content that tools returned beside their values."""
    images = [file for file in outcome.files if file.mime.startswith("image/")][:_MOST_PICTURES]
    pictures = [_binary(file.data, file.mime, file.name) for file in images]
    return ToolReturn(
        return_value=_return_value(outcome), content=[*content, *pictures] or None,
        metadata={"toolfold": account(outcome), **(notes or {})}, tools=list(revealed) or None,
    )  # fmt: skip


def to_retry(outcome: Outcome, direct: Iterable[str] = ()) -> ModelRetry:
    """Failure of a program and the calls that had succeeded; `direct` are tools outside of programs."""
    if outcome.status == "rejected":
        return ModelRetry(f"{outcome.problem}{_how_to_call(outcome.problem, direct)}\n{_NOTHING_CALLED}")
    parts = [outcome.stderr.strip("\n")]
    if outcome.problem is not None and outcome.problem.message not in parts[0]:
        parts.append(outcome.problem.message)
    if not any(parts):
        parts.append(f"the program was stopped: {outcome.status}")
    if outcome.stdout.strip():
        parts.append(f"It had printed:\n{_printed_text(outcome)}")
    return ModelRetry(
        "\n".join(part for part in [*parts, *lessons(outcome), *_successful_calls(outcome.calls)] if part)
    )


def to_exception(error: ToolfoldError, *, had_paused: bool) -> Exception:
    """An error of the host: a retry where another program may do better, else itself, and the agent's run ends."""
    is_for_the_model = entry_for(error, OF_ERROR)
    if isinstance(error, EngineCrashed):
        called = f" Tools that were called and may have run: {', '.join(error.started)}." if error.started else ""
        return ModelRetry(f"the sandbox broke while the program ran: {error}.{called}")
    if is_for_the_model and had_paused:
        return ModelRetry(f"the program cannot go on from where it waited: {error}")
    return error


def account(outcome: Outcome) -> dict[str, Any]:
    """Metadata of a program for the application; the model does not see it."""
    return {
        "execution_id": outcome.execution_id, "engine": outcome.engine, "isolation": outcome.isolation,
        "seconds": outcome.seconds, "calls": [{"tool": call.name, "error": call.error} for call in outcome.calls],
        "files": [file.name for file in outcome.files], "hints": list(outcome.hints),
        "unmade_calls": list(outcome.unmade_calls),
    }  # fmt: skip


# Any: a program's value is whatever it is.
def _return_value(outcome: Outcome) -> Any:
    texts = [first_line(outcome), _printed_text(outcome) if outcome.stdout.strip() else "", *lessons(outcome)]
    printed = "\n".join(filter(None, texts))
    names = [f"{file.name} ({file.size} bytes)" for file in outcome.files]
    files = f"Files made: {', '.join(names)}" if names else ""
    value = outcome.value
    if has_media(value):
        media = to_model(value)
        texts = [text for text in (printed, files) if text]
        return [*texts, *(media if isinstance(media, list) else [media])] if texts else media
    if files:
        printed = f"{printed}\n{files}" if printed else files
    if value is None:
        return printed or _NOTHING_TO_SHOW
    return {"printed": printed, "result": to_model(value)} if printed else to_model(value)


def _how_to_call(problem: Problem | None, direct: Iterable[str]) -> str:
    if problem is None or problem.kind != "unknown_tool":
        return ""
    names = [name for name in direct if problem.message.startswith(f"no tool {python_name(name)!r}")]
    return f"\nNo program may call {names[0]!r}: call it directly, as a tool." if names else ""


def _printed_text(outcome: Outcome) -> str:
    text = outcome.stdout.rstrip("\n")
    return f"{text}\n… ({outcome.stdout_cut_bytes} more bytes were cut)" if outcome.stdout_cut_bytes else text


def _successful_calls(calls: tuple[CallRecord, ...]) -> Iterable[str]:
    done = [call for call in calls if call.error is None]
    if not done:
        return ["No call of a tool had succeeded."]
    counts: dict[str, int] = {}
    for call in done:
        counts[call.name] = counts.get(call.name, 0) + 1
    texts = [name if count == 1 else f"{name} ({count} times)" for name, count in list(counts.items())[:_MOST_CALLS]]
    return [f"These calls had succeeded and were not undone: {', '.join(texts)}."]


# ----------------------------------------------------------------------------------------------------
# What tools of Pydantic AI return, as values for a program, and a program's value back: pictures stay pictures.

_LINKS: Final = {"image-url": ImageUrl, "audio-url": AudioUrl, "document-url": DocumentUrl, "video-url": VideoUrl}
_PLAIN_TYPES: Final = (str, int, float, bytes, type(None))


# Any: a tool may return whatever Pydantic can write as JSON.
def to_program(returned: Any) -> Value:
    """Media as `Media`, everything else as its schema describes it; the router shapes what is left."""
    if is_plain(returned) or type(returned) in _PLAIN_TYPES:
        return returned
    match returned:
        case BinaryContent():
            return Media(kind=_kind(returned), mime=returned.media_type, data=returned.data, name=returned.identifier)
        case ImageUrl() | AudioUrl() | DocumentUrl() | VideoUrl():
            return Media(kind="link", mime=_mime_of(returned), uri=returned.url, name=returned.kind)
        case Mapping():
            return {key: to_program(item) for key, item in returned.items()}
        case list() | tuple():
            return [to_program(item) for item in returned]
    try:
        return to_jsonable_python(returned, by_alias=True, bytes_mode="base64", inf_nan_mode="constants")
    except PydanticSerializationError:
        return returned  # arrays and tables, which the router knows, or nothing that can be sent: it says so


def to_model(value: Value) -> Any:
    """The same with `Media` as what Pydantic AI sends natively."""
    match value:
        case Media(kind="link"):
            link = _LINKS.get(value.name)
            return value.uri if link is None else link(url=value.uri)
        case Media():
            return _binary(value.data, value.mime, value.name or None)
        case dict():
            return {key: to_model(item) for key, item in value.items()}
        case list():
            return [to_model(item) for item in value]
    return value


def _binary(data: bytes, mime: str, name: str | None) -> BinaryContent:
    return BinaryContent.narrow_type(BinaryContent(data=data, media_type=mime, identifier=name))


def has_media(value: Value) -> bool:
    """Whether a program's value is, or holds in a list, something that is not text."""
    return isinstance(value, Media) or (isinstance(value, list) and any(isinstance(item, Media) for item in value))


def _kind(content: BinaryContent) -> Literal["image", "audio", "file"]:
    if content.is_image:
        return "image"
    return "audio" if content.is_audio else "file"


def _mime_of(link: ImageUrl | AudioUrl | DocumentUrl | VideoUrl) -> str:
    try:
        return link.media_type
    except ValueError:  # an address that does not tell
        return "application/octet-stream"


# ----------------------------------------------------------------------------------------------------
# All that a model reads of this interface before it writes a program: descriptions, and the rule when to write one.

RUN_CODE: Final = "run_code"
SEARCH: Final = "search_tools"
SEARCH_NOTE: Final = "toolfold_found"
"""The key in the metadata of a search's answer; the model does not see it."""

_HEAD: Final = """\
Run a Python program that calls tools. Only what it prints and the value of its last expression come back to you; \
replies of tools stay inside. Write one program for the whole job: several calls, loops, filters, sums. Run \
independent calls together: `await asyncio.gather(*[...])`. If one call is all you need and its tool is offered to \
you directly, call it directly instead. A failing call raises `ToolError`. Each program starts afresh, with `asyncio` \
and `json` imported. It is checked before it runs; if it is refused, no tool was called."""

_NO_TOOLS: Final = "No function is here from the start; one that a tool search finds can be called in the next program."

SEARCH_DESCRIPTION: Final = f"""\
Find tools by what they do. The answer has the signature of each tool that was found and says how to call it: \
in a program of `{RUN_CODE}`, directly, or both. Search again with other words if nothing fits."""

RUN_CODE_SCHEMA: Final = text_schema("code", "The program, whole.")
SEARCH_SCHEMA: Final = text_schema("query", "What is needed, in a few words, or a part of a name.")

IN_CODE: Final = f"call these in a program of `{RUN_CODE}`"
DIRECTLY: Final = "call these directly"


def run_code_description(
    specs: Sequence[ToolSpec], budget_characters: int | None = None, form: Form = "dense",
    snapshot: ToolLessons | None = None, files: str = "", *, has_bash: bool = False,
) -> str:  # fmt: skip
    """The description of `run_code`: how to write a program, the signatures of what it may call, and its files."""
    tools = tools_text(specs, budget_characters=budget_characters, form=form, snapshot=snapshot)
    head = f"{_HEAD} {BASH_RULE}" if has_bash else _HEAD
    return "\n\n".join(part for part in (head, tools or _NO_TOOLS, files) if part)
