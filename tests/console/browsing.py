"""Chromium, a console of its own for each test, and a page that is signed in and must never fail or run what it shows."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.console.rig import Rig, rig

# Programs and consoles are started beside the page, and a busy machine takes its time for that.
expect.set_options(timeout=30_000)
REBOUND = "evil.example"
"""A name that somebody made to point to this machine."""
ARGUMENTS = ["--no-sandbox", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]
NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31m"


@pytest.fixture(name="browser", scope="module")
def given_browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=os.environ["CHROMIUM"], args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(name="own")
def given_own(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made


@pytest.fixture(name="page")
def given_page(browser: Browser, own: Rig) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("dialog", lambda dialog: faults.append(dialog.message))
    opened.goto(own.open())
    opened.evaluate("window.loadedOnce = true")
    yield opened
    assert faults == []
    context.close()
