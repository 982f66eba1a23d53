"""Credentials of an API, requests and replies, media types, and the masking of secrets in what comes back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from toolfold.errors import ToolError, UsageError
from toolfold.models import Media, Value
from toolfold.sources.shell_commands import run_command
from toolfold.tools.error_text import MASK, SHORTEST, forms_of, hide, mask_secrets
from toolfold.tools.router_steps import PerLoop

# ----------------------------------------------------------------------------------------------------
# Requests and replies, as plain data.


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """Request without its credentials."""

    method: str
    url: str
    """Whole and encoded."""
    headers: tuple[tuple[str, str], ...] = ()
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebReply:
    """Reply, read to its end."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    """With names in lower case; without cookies, which are secrets of the connection."""
    content: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def mime(self) -> str:
        return normalize_mime(self.header("content-type"))


# ----------------------------------------------------------------------------------------------------
# Media types and charsets. Pure.

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
_AS_TEXT: Final = frozenset({"application/xml", "application/yaml", "application/x-yaml", "application/javascript"})
_CODECS: Final[Mapping[str, str]] = {
    "utf-8": "utf-8 utf8 us-ascii ascii", "utf-16": "utf-16 utf16", "utf-16-le": "utf-16le", "utf-16-be": "utf-16be",
    "latin-1": "iso-8859-1 iso8859-1 latin1 latin-1", "iso8859-2": "iso-8859-2 iso8859-2 latin2",
    "iso8859-15": "iso-8859-15 iso8859-15 latin9", "cp1250": "windows-1250 cp1250", "cp1251": "windows-1251 cp1251",
    "cp1252": "windows-1252 cp1252", "cp1253": "windows-1253 cp1253 iso-8859-7",
    "cp1254": "windows-1254 cp1254 iso-8859-9", "koi8-r": "koi8-r", "koi8-u": "koi8-u",
    "cp932": "shift_jis shift-jis sjis windows-31j", "euc_jp": "euc-jp", "cp949": "euc-kr ks_c_5601-1987",
    "gb18030": "gb2312 gbk gb18030", "big5": "big5",
}  # fmt: skip
"""Codecs and the charsets that they read; each takes time in proportion to the text. `punycode` does not."""
CODECS: Final = tuple(_CODECS)
_CODEC_OF: Final = {label: codec for codec, labels in _CODECS.items() for label in labels.split()}


def codec_of(content_type: str) -> str:
    """Codec for the charset of a content type; UTF-8 for one that is unknown or missing.

    Python's registry is not used: it has codecs that take quadratic time, and remembers every name that it is given.
    """
    _, _, charset = content_type.lower().partition("charset=")
    return _CODEC_OF.get(charset.partition(";")[0].strip().strip("\"'"), "utf-8")


def normalize_mime(mime: str) -> str:
    """Without parameters, in lower case."""
    return mime.partition(";")[0].strip().lower()


def is_json(mime: str) -> bool:
    """Whether its content is JSON: `application/json`, `application/problem+json`, ..."""
    mime = normalize_mime(mime)
    return mime == JSON or mime.endswith(("+json", "/json"))


def is_text(mime: str) -> bool:
    mime = normalize_mime(mime)
    return mime.startswith("text/") or mime in _AS_TEXT or mime.endswith("+xml")


def preferred_mime(mimes: Iterable[str]) -> str:
    """The type that programs can make most of; the first of several that are alike."""
    return min(mimes, key=_preference)


def _preference(mime: str) -> list[bool]:
    mime = normalize_mime(mime)
    return [not fits for fits in (mime == JSON, is_json(mime), mime == MULTIPART, mime == FORM, is_text(mime))]


# ----------------------------------------------------------------------------------------------------
# Masking of a source's secrets in whatever comes back: replies, headers, errors, and the log lines of libraries.

_CHATTY: Final = (
    "httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "hpack.hpack", "hpack.table", "h2",
)  # fmt: skip
"""Loggers of URLs and headers."""
_ENCODINGS: Final = (*(codec for codec in CODECS if codec != "utf-16"), "utf-32-le", "utf-32-be", "cp037")
"""Encodings of a secret in bytes. The last three are never decoded here, but a program can decode them itself."""
_Replacements: TypeAlias = tuple[tuple[bytes, bytes], ...]


class SecretMasker:
    """Replaces each secret of 8 characters or more, raw or encoded, with `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._forms: tuple[str, ...] = ()
        self._byte_replacements: _Replacements = ()
        self._json_replacements: _Replacements = ()
        self._numbers: frozenset[str] = frozenset()
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Mask this one as well, from now on; in errors of every tool, too."""
        if len(secret) < SHORTEST or secret in self._secrets:
            return
        hide([secret])
        _guard_logs()
        self._secrets.add(secret)
        self._forms = forms_of(frozenset(self._secrets))
        self._byte_replacements = _byte_replacements(self._forms)
        self._json_replacements = tuple(
            (msgspec.json.encode(form)[1:-1], MASK.encode()) for form in self._forms if _is_utf8(form)
        )
        self._numbers = frozenset(number for number in self._secrets if number.isdecimal())

    def mask_text(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask bytes in every encoding that text has here; before decoding, whatever the label says."""
        return _replace_all(data, self._byte_replacements)

    def mask_json(self, data: bytes) -> Value:
        """Decode JSON and mask it, without a step in Python for each part; `msgspec.DecodeError` if it is none."""
        value: Value = msgspec.json.decode(data)
        if self._numbers or not self._json_replacements:
            return self.mask_value(value) if self._numbers else value
        # Written again, for a secret may hide behind escapes.
        encoded = msgspec.json.encode(value)
        clean = _replace_all(encoded, self._json_replacements)
        if clean == encoded:
            return value
        try:
            masked_value: Value = msgspec.json.decode(clean)
        except msgspec.DecodeError:  # the secret has quotes and commas, as JSON does
            return self.mask_value(value)
        return masked_value

    def mask_value(self, value: Value) -> Value:
        """Mask a whole value; keys too."""
        match value:
            case str():
                return self.mask_text(value)
            case bytes():
                return self.mask_bytes(value)
            case list():
                return [self.mask_value(item) for item in value]
            case dict():
                return {self.mask_text(key): self.mask_value(item) for key, item in value.items()}
            case Media():
                text, data = self.mask_text, self.mask_bytes(value.data)
                return replace(value, data=data, uri=text(value.uri), name=text(value.name))
            case int() | float() if self._numbers and any(number in str(value) for number in self._numbers):
                return MASK
        return value


def _byte_replacements(forms: Sequence[str]) -> _Replacements:
    replacements: dict[bytes, bytes] = {}
    for form in forms:
        replacements.setdefault(form.encode("utf-8", "surrogateescape"), MASK.encode())
        for encoding in _ENCODINGS:
            with contextlib.suppress(UnicodeEncodeError):  # then no text in this encoding can have it
                replacements.setdefault(form.encode(encoding), MASK.encode(encoding))
    return tuple(replacements.items())


def _replace_all(data: bytes, replacements: _Replacements) -> bytes:
    has_zeros = b"\0" in data
    for raw, mask in replacements:
        if (has_zeros or b"\0" not in raw) and raw in data:
            data = data.replace(raw, mask)
    return data


def _is_utf8(form: str) -> bool:
    try:
        form.encode()
    except UnicodeEncodeError:
        return False
    return True


class _MaskingFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = mask_secrets(record.getMessage()), None
        return True


_masking: Final = _MaskingFilter()


def _guard_logs() -> None:
    for name in _CHATTY:
        logging.getLogger(name).addFilter(_masking)


Send: TypeAlias = Callable[[WebRequest], Awaitable[WebReply]]
AuthType: TypeAlias = Literal["bearer", "basic", "header", "query", "cookie", "oauth2"]

_EARLY_SECONDS: Final = 30.0
"""A token that is about to expire is not used any more."""
_USUAL_SECONDS: Final = 300.0
_MOST_BYTES: Final = 64 * 1024
_NEEDS: Final[Mapping[AuthType, tuple[str, ...]]] = {
    "bearer": (), "basic": ("username",), "header": ("name",), "query": ("name",), "cookie": ("name",),
    "oauth2": ("token_url", "client_id"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAuth:
    """Authentication at an API.

    `secret` is the token, the password, the key or the client secret; `command` prints it instead, and is run again
    when the API no longer accepts it.
    """

    type: AuthType
    secret: str = field(default="", repr=False)
    command: Sequence[str] = ()
    username: str = ""
    """basic"""
    name: str = ""
    """header, query, cookie: name of the header, the query parameter or the cookie."""
    token_url: str = ""
    """oauth2, like the two below: client credentials."""
    client_id: str = ""
    scope: str = ""

    def __post_init__(self) -> None:
        for need in _NEEDS[self.type]:
            if not getattr(self, need):
                raise UsageError(f"auth of type {self.type!r} needs {need!r}")
        if bool(self.secret) == bool(self.command):
            raise UsageError("auth needs either 'secret' or 'command', and not both")


class Credentials:
    """Secret of one API, renewed when needed, as the parts of a request that carry it."""

    def __init__(self, auth: ApiAuth, masker: SecretMasker, send: Send, env: Mapping[str, str]) -> None:
        self._auth = auth
        self._masker = masker
        self._send = send
        self._env = env
        self._secret = auth.secret
        self._token = ""
        self._expires = 0.0
        self._lock = PerLoop(asyncio.Lock)
        self._learn(auth.secret)

    @property
    def is_cookie(self) -> bool:
        return self._auth.type == "cookie"

    @property
    def can_renew(self) -> bool:
        """Whether another secret can be obtained when this one is refused."""
        return self._auth.type == "oauth2" or bool(self._auth.command)

    def forget(self) -> None:
        self._expires = 0.0
        if self._auth.command:
            self._secret = ""

    async def parts(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Headers and query parameters for a request; `ToolError` if the command or token server returned no secret."""
        async with self._lock.get():
            secret = await self._current_secret()
        match self._auth.type:
            case "header":
                return ((self._auth.name, secret),), ()
            case "query":
                return (), ((self._auth.name, secret),)
            case "cookie":
                return (("Cookie", f"{self._auth.name}={secret}"),), ()
            case "basic":
                return (("Authorization", f"Basic {_basic(self._auth.username, secret)}"),), ()
        return (("Authorization", f"Bearer {secret}"),), ()

    async def _current_secret(self) -> str:
        if not self._secret and self._auth.command:
            self._secret = await self._secret_from_command()
        if self._auth.type != "oauth2":
            return self._secret
        if time.monotonic() >= self._expires:
            self._token = await self._fetch_token()
        return self._token

    async def _secret_from_command(self) -> str:
        try:
            result = await run_command(
                self._auth.command, cwd=None, env=self._env, stdin=None, max_output_bytes=_MOST_BYTES
            )
        except OSError as error:
            raise _secret_error(f"the command for its secret cannot be started: {error.strerror}") from None
        secret = result.stdout.decode(errors="replace").strip()
        if result.code != 0 or not secret:
            raise _secret_error(f"the command for its secret ended with exit code {result.code}")
        self._learn(secret)
        return secret

    async def _fetch_token(self) -> str:
        """Client credentials grant, RFC 6749 section 4.4."""
        auth = self._auth
        form = {"grant_type": "client_credentials", **({"scope": auth.scope} if auth.scope else {})}
        # Both are form-encoded before they are joined, says section 2.3.1.
        pair = _basic(quote(auth.client_id, safe=""), quote(self._secret, safe=""))
        headers = (("Authorization", f"Basic {pair}"), ("Content-Type", FORM), ("Accept", JSON))
        reply = await self._send(
            WebRequest(method="POST", url=auth.token_url, headers=headers, content=urlencode(form).encode())
        )
        try:
            answer = msgspec.json.decode(reply.content, type=_TokenAnswer)
        except msgspec.MsgspecError:
            raise _secret_error(f"its token server answered {reply.status} without a token") from None
        self._expires = time.monotonic() + max(0.0, (answer.expires_in or _USUAL_SECONDS) - _EARLY_SECONDS)
        self._learn(answer.access_token)
        return answer.access_token

    def _learn(self, secret: str) -> None:
        self._masker.add(secret)
        if self._auth.type == "basic" and secret:
            self._masker.add(_basic(self._auth.username, secret))


class _TokenAnswer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


def _basic(username: str, secret: str) -> str:
    return base64.b64encode(f"{username}:{secret}".encode()).decode()


def _secret_error(reason: str) -> ToolError:
    error = ToolError(f"not called: {reason}")
    error.nothing_ran = True
    return error
