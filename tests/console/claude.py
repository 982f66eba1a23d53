"""A person at the page decides on a call of the real Claude Code: `make test NAME=console ARGS=claude.py`.

Needs the npm packages that `make test NAME=claude` fetches.
"""

import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.clients.claude_code.cli import Case, Seen, run
from tests.clients.claude_code.deciding import asking, console

PACKAGES = Path("build/clients/claude-code")
PROGRAM = "# Pay the bill\nprint(await pay(amount=5, to='ada'))"


@pytest.mark.timeout(120)
def test_a_call_of_claude_code_is_approved_in_the_page_and_its_program_goes_on() -> None:
    if not PACKAGES.exists():
        pytest.fail("NOT RUN: Claude Code is not there; 'make test NAME=claude' fetches it")
    links: queue.Queue[str] = queue.Queue()
    seen: queue.Queue[Seen] = queue.Queue()

    @contextmanager
    def beside(work: Path) -> Iterator[None]:
        with console(work) as link:
            links.put(link)
            yield

    case = Case("", [PROGRAM], lambda _: None, config=asking("console"), beside=beside)
    thread = threading.Thread(target=lambda: seen.put(run(case, PACKAGES.resolve())), daemon=True)
    thread.start()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(links.get(timeout=60))
        expect(page.locator("#badge")).to_have_text("1", timeout=60_000)
        page.locator(".run", has_text="Pay the bill").click()
        expect(page.locator(".pill.waiting")).to_be_visible()
        page.evaluate("location.hash = '#/inbox'")
        expect(page.locator(".ask-row")).to_contain_text("mcp")
        page.keyboard.press("a")
        expect(page.locator(".empty")).to_contain_text("No pending approvals")
        browser.close()
    thread.join()

    assert seen.get().texts == [(False, "[Script executed successfully]\npaid 5 to ada\n")]
