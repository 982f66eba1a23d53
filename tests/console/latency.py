"""How live the page is: from a tool's reply to its place on the screen, with 20 programs at once; and after silence.

`make bench NAME=console` runs it and prints the figures.
"""

import json
import statistics
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import given_browser, given_own, given_page  # noqa: F401
from tests.console.figures import note
from tests.console.rig import CONFIG, Rig
from tests.ledger.redis_server import running_server

pytestmark = pytest.mark.timeout(280)

PROGRAMS = 20
CALLS = 60
AT_MOST_MS = 250
SILENT_SECONDS = 30
# Every program in one process, as on a server; each notes when its tool had the reply.
TWENTY = f"""
import asyncio
import json
import sys
import time
from pathlib import Path

from toolfold import Runtime, tool
from toolfold.ledger.ledger_factory import open_ledger

given = {{}}


@tool
async def step(program: int, number: int) -> int:
    \"\"\"A step.\"\"\"
    await asyncio.sleep(0.1)
    given.setdefault(program, []).append(time.time())
    return number


async def main() -> None:
    ledger = open_ledger(sys.argv[1])
    text = "await asyncio.sleep(4)\\nfor number in range({CALLS}):\\n    await step(program=PROGRAM, number=number)\\n"
    async with Runtime([step], ledger=ledger) as runtime:
        texts = [f"# Program {{at}}\\n" + text.replace("PROGRAM", str(at)) for at in range({PROGRAMS})]
        await asyncio.gather(*(runtime.run(one) for one in texts))
    await ledger.close()
    Path("given.json").write_text(json.dumps(given))


asyncio.run(main())
"""
SLOW = """# Goes on while nobody looks
for number in range(45):
    await fetch(number=number)
    print("line", number)
"""
# Each frame looks at what is drawn, and keeps when a reply was there first.
WATCH = """() => {
  window.seen = [];
  const look = () => {
    const replied = Number(document.querySelector('.fall')?.dataset.replied ?? 0);
    while (window.seen.length < replied) window.seen.push(Date.now() / 1000);
    requestAnimationFrame(look);
  };
  look();
}"""


@pytest.fixture(params=["sqlite", "redis"])
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield "ledger.sqlite"
        return
    with running_server() as server:
        if server is None:
            pytest.fail("NOT RUN: there is no redis-server, and it cannot be installed here")
        yield server.url


@pytest.fixture(name="at")
def configured(where: str, own: Rig) -> str:
    """Before the page is opened: the console of this ledger."""
    own.write("toolfold.yaml", CONFIG.replace("ledger.sqlite", where))
    return where


def test_a_reply_is_on_the_screen_within_a_quarter_of_a_second(at: str, page: Page, own: Rig) -> None:
    own.write("twenty.py", TWENTY)
    running = own.start_script("twenty.py", at)
    page.locator(".run", has_text="Program 7").click()
    expect(page.locator(".fall")).to_be_visible()
    page.evaluate(WATCH)
    expect(page.locator(".pill.finished")).to_be_visible(timeout=120_000)
    assert running.wait() == 0, running.stdout and running.stdout.read()

    given = json.loads((own.folder / "given.json").read_text())["7"]
    late = sorted((seen - said) * 1000 for seen, said in zip(page.evaluate("window.seen"), given, strict=True))
    p95 = late[int(len(late) * 0.95)]
    name = "redis" if "://" in at else "sqlite"
    detail = f"p95 of {len(late)} replies, {PROGRAMS} programs; p50 {statistics.median(late):.0f} ms"
    note(f"reply to screen, {name}", p95, AT_MOST_MS, "ms", detail)
    assert p95 <= AT_MOST_MS


def test_after_half_a_minute_of_silence_everything_is_there_once(at: str, page: Page, own: Rig) -> None:
    running = own.run(SLOW, "slow.py")
    page.locator(".run", has_text="while nobody looks").click()
    expect(page.locator(".fall")).to_have_attribute("data-calls", "4", timeout=30_000)
    own.kill()
    expect(page.locator("#live")).to_have_text("reconnecting")
    time.sleep(SILENT_SECONDS)  # what is measured is a silence of this length
    own.open()
    expect(page.locator("#live")).to_have_text("live", timeout=30_000)
    assert running.wait() == 0
    expect(page.locator(".pill.finished")).to_be_visible(timeout=30_000)

    lines = page.locator(".out").inner_text().split("\n")
    assert [line for line in lines if line] == [f"line {number}" for number in range(45)]
    expect(page.locator(".fall")).to_have_attribute("data-calls", "45")
    name = "redis" if "://" in at else "sqlite"
    note(f"missing or twice after silence, {name}", 0, 0, "calls", f"45 calls and 45 lines, {SILENT_SECONDS} s")
