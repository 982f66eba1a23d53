"""Bodies in every charset: the codecs that are used, secrets in all of them, and large ones beside the event loop."""

import json
import threading
from dataclasses import dataclass, field

import pytest

import toolfold
from tests.sources.openapi.serving import Answer, Serving
from toolfold.sources.web.client import fetch_tool
from toolfold.sources.web.credentials import CODECS, ApiAuth, SecretMasker, WebReply
from toolfold.sources.web.reply_values import read_reply

SECRET = "tok-12345678"


def body_of(answer):
    """What a program gets as the body of this answer."""
    with Serving(lambda _: answer) as server:
        tool = fetch_tool([f"127.0.0.1:{server.port}"])
        return toolfold.run_sync(f"(await fetch(url='{server.url}'))['body']", tools=[tool]).value


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("punycode", b"Mnchen-3ya", "Mnchen-3ya"),
        ("PunyCode", b"Mnchen-3ya", "Mnchen-3ya"),
        ("idna", b"xn--mnchen-3ya", "xn--mnchen-3ya"),
        ("unicode_escape", b"a\\x41", "a\\x41"),
        ("raw-unicode-escape", b"a\\u0041", "a\\u0041"),
        ("utf-7", b"+AGE-", "+AGE-"),
        ("undefined", b"a", "a"),
        ("cp037", b"abc", "abc"),
        ("no-such-charset", "é".encode(), "é"),
        ('"ISO-8859-1"', b"\xe9", "é"),
        ("utf-16; boundary=x", "é€".encode("utf-16"), "é€"),
        ("utf-16be", "é€".encode("utf-16-be"), "é€"),
        ("windows-1251", "дом".encode("cp1251"), "дом"),
        ("Shift_JIS", "日本".encode("shift_jis"), "日本"),
        ("gbk", "中文".encode("gbk"), "中文"),
        ("big5", "中文".encode("big5"), "中文"),
        ("euc-kr", "한국".encode("euc-kr"), "한국"),
    ],
)  # fmt: skip
def test_a_text_is_decoded_by_a_codec_of_the_list_and_else_as_utf8(charset, body, text):
    assert body_of(Answer(200, body, mime=f"text/plain; charset={charset}")) == text


LABELS = ("utf-8", "utf-16", "utf-16le", "utf-16be", "cp037", "latin-1", "gb18030", "utf-32")
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "cp037")
EACH = """
texts = []
for label in {labels}:
    for encoding in {encodings}:
        try:
            texts.append((await fetch(url=f"{url}/{{label}}/{{encoding}}"))["body"])
        except Exception as error:
            texts.append(str(error))
# Undone, as a program would that is after the secret.
[
    (text, codec, encoding)
    for text in texts
    for codec in ("utf-8", "utf-16-le", "utf-16-be", "latin-1", "gb18030")
    for encoding in {encodings}
    if "12345678".encode(encoding) in text.encode(codec, "replace")
]
"""


@pytest.mark.parametrize("status", [200, 400])
def test_a_secret_is_masked_whatever_its_charset_and_its_label_are(status):
    def answer(asked):
        _, label, encoding = asked.path.split("/")
        return Answer(status, f"<{SECRET}>".encode(encoding), mime=f"text/plain; charset={label}")

    with Serving(answer) as server:
        host = f"127.0.0.1:{server.port}"
        tool = fetch_tool([host], secrets={host: ApiAuth(type="bearer", secret=SECRET)})
        program = EACH.format(labels=LABELS, encodings=ENCODINGS, url=server.url)
        outcome = toolfold.run_sync(program, tools=[tool])

    assert (outcome.value, len(server.asked)) == ([], len(LABELS) * len(ENCODINGS))


@pytest.mark.parametrize("encoding", [*CODECS, "utf-32-be", "cp037"])
def test_a_secret_beyond_ascii_is_masked_in_each_encoding_that_has_it(encoding):
    secret = next(
        one for one in ("pässword-1234", "пароль-1234", "密码密码-1234", "password-1234") if _has(encoding, one)
    )
    echoes = SecretMasker([secret])

    clean = echoes.mask_bytes(b"<" + secret.encode(encoding).removeprefix(b"\xff\xfe") + b">")

    assert clean == b"<" + "***".encode(encoding).removeprefix(b"\xff\xfe") + b">"


def _has(encoding, text):
    try:
        return bool(text.encode(encoding))
    except UnicodeEncodeError:
        return False


@pytest.mark.parametrize(
    ("secret", "value"),
    [
        (SECRET, {"a": [f"x{SECRET}x", {SECRET: 1}], "b": 12345678}),
        ('quo"te\\d,12', ['quo"te\\d,12', 'quo"te']),
        ('a","b":"cd', {"x": 'a","b":"cd'}),
        ('["a","b"]', ["a", "b", '["a","b"]']),
        ("12345678", [12345678, "a12345678", 1.5]),
        ("sécret-日本", ["sécret-日本", {"k": "sécret"}]),
    ],
)
def test_json_is_masked_as_a_value_and_stays_whole(secret, value):
    echoes = SecretMasker([secret])
    escaped = json.dumps(value).encode()

    assert echoes.mask_json(escaped) == echoes.mask_value(value)
    assert echoes.mask_json(json.dumps(value, ensure_ascii=False).encode()) == echoes.mask_value(value)


@dataclass
class Watched(SecretMasker):
    """Notes the threads in which replies are read."""

    threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self):
        super().__init__([SECRET])

    def mask_bytes(self, data):
        self.threads.append(threading.current_thread())
        return super().mask_bytes(data)

    def mask_json(self, data):
        self.threads.append(threading.current_thread())
        return super().mask_json(data)


@pytest.mark.parametrize(
    ("mime", "content"),
    [
        ("text/plain; charset=gbk", b"a" * 300_000),
        ("application/json", b'"' + b"a" * 300_000 + b'"'),
        ("image/png", b"a" * 300_000),
    ],
)
async def test_a_large_body_is_read_outside_the_event_loop(mime, content):
    echoes = Watched()

    for body in (content, b'"a"'):
        reply = WebReply(status=200, reason="OK", headers=(("content-type", mime),), content=body)
        await read_reply(reply, echoes)

    assert [one is threading.main_thread() for one in echoes.threads] == [False, True]
