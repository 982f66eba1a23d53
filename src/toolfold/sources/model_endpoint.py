"""Language model behind an OpenAI-compatible or Anthropic-compatible endpoint: one conversation, request by request.

The only module that imports Pydantic AI's model classes. Knows no tool, no program and no evaluation.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from toolfold.errors import ToolFailed, ToolUnreachable, UsageError, install_extra
from toolfold.models import Json, Prices

try:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition
except ModuleNotFoundError as error:
    raise UsageError(f"{error.name!r} is not installed, which model endpoints need; {install_extra('eval')}") from error

Api: TypeAlias = Literal["openai", "anthropic"]

KEY_VARIABLES: Final[dict[Api, str]] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_NO_KEY: Final = "none"
"""For endpoints on one's own machine, which ask for no key: the clients want some text."""
_LONGEST_REASON: Final = 200
_AROUND_CALLS: Final = re.compile(r"</?tools?(?:_call)?>|^```(?:json|xml)?$", re.MULTILINE)
_PYTHON_WORD: Final = re.compile(r'"(?:\\.|[^"\\])*"|\b(?:True|False|None)\b')
"""Also texts, in which nothing is changed."""
_JSON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_LENIENT: Final = json.JSONDecoder(strict=False)
"""Takes the bare line breaks that models write into texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is and what each request asks of it; its key stays in the environment."""

    model: str
    url: str = ""
    """The base URL, such as http://127.0.0.1:8080/v1; empty is the provider's own."""
    api: Api = "openai"
    key_variable: str = ""
    """Environment variable that has the key; the provider's usual one unless given."""
    temperature: float | None = 0.0
    max_tokens: int = 2048
    timeout_seconds: float = 600.0
    retries: int = 4
    """Of a request that is answered with 429 or 5xx, or not at all; the client waits longer each time."""
    prices: Prices | None = None
    """`None` takes the list prices of known models."""

    @property
    def place(self) -> str:
        return repr(self.url or f"the {self.api} API")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What requests used; sums with `+`."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, those read from the endpoint's cache."""
    output_tokens: int = 0
    seconds: float = 0.0
    price: float | None = 0.0
    """US dollars; `None` if unknown."""

    def __add__(self, other: ModelUsage) -> ModelUsage:
        price = None if self.price is None or other.price is None else self.price + other.price
        return ModelUsage(
            requests=self.requests + other.requests, input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens, price=price,
            output_tokens=self.output_tokens + other.output_tokens, seconds=self.seconds + other.seconds,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTool:
    """A tool as a request offers it."""

    name: str
    description: str
    schema: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A tool call in a model's turn; `arguments` are as it wrote them, which may be no JSON."""

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """A model's reply to one request."""

    text: str
    calls: tuple[ModelCall, ...]
    usage: ModelUsage
    is_cut: bool = False
    """It reached `max_tokens`."""
    has_calls_in_text: bool = False
    """The calls are JSON in its text: small models write them so, and endpoints pass it on as an answer."""


@dataclass(slots=True)
class ModelConversation:
    """Messages with one model. Add what it shall read with `say` and `reply`, then `request` its next turn."""

    client: ModelClient
    instructions: str = ""
    tools: Sequence[ModelTool] = ()
    callable_names: Collection[str] = ()
    """Tools beside those that are offered whose calls count, too, if the model writes them into its text."""
    _messages: list[ModelMessage] = field(default_factory=list)
    _pending: list[UserPromptPart | ToolReturnPart] = field(default_factory=list)

    def say(self, text: str) -> None:
        self._pending.append(UserPromptPart(text))

    def reply(self, call: ModelCall, text: str, *, has_failed: bool = False) -> None:
        outcome: Literal["failed", "success"] = "failed" if has_failed else "success"
        self._pending.append(ToolReturnPart(call.tool, text, call.id, outcome=outcome))

    async def request(self) -> ModelTurn:
        """The model's next turn.

        Raises:
            UsageError: the endpoint refuses the key, the model, its tools or the request.
            ToolFailed: the conversation is longer than the model's context.
            ToolUnreachable: the endpoint did not answer, and trying again did not help.
        """
        self._messages.append(ModelRequest(self._pending, instructions=self.instructions or None))
        self._pending = []
        began = time.perf_counter()
        response = await self.client.respond(self._messages, self.tools)
        names = {*self.callable_names, *(tool.name for tool in self.tools)}
        in_text = [] if response.tool_calls else calls_in_text(response.text or "", names)
        if in_text:
            # As calls in the history, so that their results have something to belong to.
            response = replace(response, parts=in_text)
        self._messages.append(response)
        calls = tuple(
            ModelCall(id=part.tool_call_id, tool=part.tool_name, arguments=part.args_as_json_str())
            for part in response.tool_calls
        )
        return ModelTurn(
            text=response.text or "", calls=calls, is_cut=response.finish_reason == "length",
            has_calls_in_text=bool(in_text),
            usage=self.client.usage_of(response, time.perf_counter() - began),
        )  # fmt: skip


def calls_in_text(text: str, names: Collection[str]) -> list[ToolCallPart]:
    """Calls of these tools, if the text is nothing but JSON objects with a name and arguments, in tags or fences."""
    rest, calls = _PYTHON_WORD.sub(_as_json_word, _AROUND_CALLS.sub("", text)).strip(), list[ToolCallPart]()
    while rest:
        try:
            item, end = _LENIENT.raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        match item:
            case {"name": str(name), "arguments": dict(arguments)} if name in names:
                calls.append(ToolCallPart(name, arguments))
            case _:
                return []
        rest = rest[end:].lstrip(" \n,;")
    return calls


def _as_json_word(match: re.Match[str]) -> str:
    return _JSON_WORDS.get(match[0], match[0])


class ModelClient:
    """Connection to an endpoint, for any number of conversations."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        variable = endpoint.key_variable or KEY_VARIABLES[endpoint.api]
        key = os.environ.get(variable, "")
        if not key and (endpoint.key_variable or not endpoint.url):
            raise UsageError(f"no API key for {endpoint.place}: the environment variable {variable!r} is not set")
        self._key_variable = variable
        self._key = key
        # Any: both clients take the same keywords.
        options: dict[str, Any] = {
            "api_key": key or _NO_KEY, "base_url": endpoint.url or None, "max_retries": endpoint.retries,
            "timeout": endpoint.timeout_seconds,
        }  # fmt: skip
        self._model: Model = (
            AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=AsyncAnthropic(**options)))
            if endpoint.api == "anthropic"
            else OpenAIChatModel(endpoint.model, provider=OpenAIProvider(openai_client=AsyncOpenAI(**options)))
        )
        self._settings = ModelSettings(max_tokens=endpoint.max_tokens)
        if endpoint.temperature is not None:
            self._settings["temperature"] = endpoint.temperature

    async def respond(self, messages: Sequence[ModelMessage], tools: Sequence[ModelTool]) -> ModelResponse:
        """The response to these messages; `ModelConversation.request` says what it raises."""
        definitions = [
            # Not strict: that mode takes only a part of JSON Schema, and tools have all of it.
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=tool.schema, strict=False
            )
            for tool in tools
        ]
        parameters = ModelRequestParameters(function_tools=definitions)
        try:
            return await model_request(
                self._model, messages, model_settings=self._settings, model_request_parameters=parameters
            )
        except ModelHTTPError as error:
            raise self._refusal(error, has_tools=bool(tools)) from error
        except ModelAPIError as error:
            reason = f"endpoint {self.endpoint.place} did not answer: {self._reason(error.message)}"
            raise ToolUnreachable(f"{reason}; check its URL, and that it runs") from error
        except UnexpectedModelBehavior as error:
            reason = f"endpoint {self.endpoint.place} answered what no {self.endpoint.api} API does"
            raise UsageError(f"{reason}: {self._reason(error.message)}; check the URL and the API's kind") from error
        except UserError as error:
            raise UsageError(f"request to {self.endpoint.place}: {self._reason(str(error))}") from error

    def usage_of(self, response: ModelResponse, seconds: float) -> ModelUsage:
        usage = ModelUsage(
            requests=1, input_tokens=response.usage.input_tokens, cached_tokens=response.usage.cache_read_tokens,
            output_tokens=response.usage.output_tokens, seconds=seconds, price=None,
        )  # fmt: skip
        if self.endpoint.prices is not None:
            price: float | None = self.endpoint.prices.of(
                input_tokens=usage.input_tokens, cached_tokens=usage.cached_tokens, output_tokens=usage.output_tokens
            )
        elif self.endpoint.url:
            price = None  # someone else may serve the model, at another price
        else:
            try:
                price = float(response.cost().total_price)
            except (LookupError, ValueError):  # no list price
                price = None
        return replace(usage, price=price)

    def _refusal(self, error: ModelHTTPError, *, has_tools: bool) -> UsageError | ToolUnreachable | ToolFailed:
        place, model, status = self.endpoint.place, self.endpoint.model, error.status_code
        reason = self._reason(_body_text(error.body))
        if status in (401, 403):
            return UsageError(f"endpoint {place} refused the key in {self._key_variable} ({status}); set the right one")
        if status == 404:
            return UsageError(f"endpoint {place} knows no model {model!r} (404: {reason}); check the model and the URL")
        if status == 429 or status >= 500:
            again = f"after {self.endpoint.retries + 1} tries"
            return ToolUnreachable(f"endpoint {place} answered {status} {again}: {reason}; try again later")
        if status in (400, 413) and "context" in reason.lower():
            return ToolFailed(f"the conversation is longer than the context of {model!r} ({status}: {reason})")
        if has_tools and "tool" in reason.lower():
            return UsageError(f"model {model!r} takes no tools at {place} ({status}: {reason}); choose one that does")
        return UsageError(f"endpoint {place} refused the request ({status}: {reason})")

    def _reason(self, text: str) -> str:
        """One line, without the key: some endpoints repeat it."""
        line = " ".join(text.split())
        return (line.replace(self._key, "***") if self._key else line)[:_LONGEST_REASON] or "no reason given"


def _body_text(body: object) -> str:
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message", inner) if isinstance(inner, dict) else inner
        return message if isinstance(message, str) else json.dumps(message, default=str)
    return "" if body is None else str(body)
