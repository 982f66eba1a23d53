"""What a program reads of a tool's error: its text without secrets, or only its type."""

import base64
import json
import logging
from urllib.parse import quote

import pytest

from tests.tools.support import Planned, made, router_of, serve
from toolfold.tools.error_text import hide, mask_secrets

SECRET = 'p/ß+ w"rd?key'


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", SECRET)
    monkeypatch.setenv("SHORT_TOKEN", "1234567")
    monkeypatch.setenv("GREETING", "good morning")


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
    ],
)
async def test_a_secret_is_masked_in_every_form(form: str) -> None:
    reply = await serve(router_of(made(Planned(ValueError(f"no way in with {form}!")))))

    assert reply.error == "'x' failed: no way in with ***!"


@pytest.mark.parametrize("before", ["", "u", "us", "use", "user:"])
@pytest.mark.parametrize("after", ["", "!", "!!", "!!!"])
def test_a_secret_within_base64_is_masked(before: str, after: str) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(f"{before}{SECRET}{after}".encode()).decode()
        shown = mask_secrets(f"Basic {text}")

        assert "***" in shown
        assert len(shown.removeprefix("Basic ")) <= len("***") + 4 * (len(before) + len(after)) // 3 + 8


async def test_what_is_short_or_not_called_a_secret_stays() -> None:
    reply = await serve(router_of(made(Planned(ValueError("good morning 1234567")))))

    assert reply.error == "'x' failed: good morning 1234567"


async def test_what_the_config_got_from_variables_is_masked_whatever_they_are_called() -> None:
    hide(["https://inner.example", "short"])

    reply = await serve(router_of(made(Planned(ValueError("short of https://inner.example/a")))))

    assert reply.error == "'x' failed: short of ***/a"


async def test_the_log_says_that_a_secret_was_masked_and_does_not_have_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await serve(router_of(made(Planned(ValueError(f"no way in with {SECRET}")))))

    assert [record.getMessage() for record in caplog.records] == [
        "'x' failed; a secret was masked in its message: no way in with ***"
    ]


async def test_without_details_only_the_type_is_told_and_the_log_has_all(caplog: pytest.LogCaptureFixture) -> None:
    router = router_of(made(Planned(ValueError("secret plan"))), error_details=False)
    with caplog.at_level(logging.WARNING):
        failed, unknown = await serve(router), await serve(router, "y")

    assert (failed.error, unknown.error) == ("'x' failed: ValueError", "no tool 'y'")
    assert [record.getMessage() for record in caplog.records] == ["'x' failed: ValueError: secret plan"]


def test_the_current_folder_is_no_password_although_shells_call_it_so() -> None:
    environment = {"PWD": "/home/ann/reports", "OLDPWD": "/home/ann/inbox", "MYSQL_PWD": "hunter2-hunter2"}

    said = mask_secrets("no /home/ann/reports/q1.csv, nor in /home/ann/inbox, for hunter2-hunter2", environment)

    assert said == "no /home/ann/reports/q1.csv, nor in /home/ann/inbox, for ***"
