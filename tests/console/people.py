"""What people do all day with the console, in a real browser: find, share, decide, and see what it cost."""

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import given_browser, given_own, given_page  # noqa: F401
from tests.console.rig import Rig

pytestmark = pytest.mark.timeout(120)

ORDERS = """# Two numbers
first = await convert(text="1234.5")
try:
    await convert(text="no number at all")
except Exception as error:
    print("went on")
print(await echo(text="a reply about Lima"))
"""
NAMED = """
import asyncio
import shop
from toolfold import Runtime
from toolfold.ledger.sqlite.store import SqliteLedger


async def main() -> None:
    ledger = SqliteLedger("ledger.sqlite")
    async with Runtime([shop.convert], ledger=ledger) as runtime:
        for number in (1, 2):
            await runtime.run(
                f"print(await convert(text='{number}'))", title=f"Step {number}", tags=["eu", f"t{number}"], user="ann",
                conversation="c-17", model="model-1",
            )
        await runtime.run("print(3)")
    await ledger.close()


asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1234.5", 1),
        ("Lima", 1),
        ("could not convert", 1),
        ('"a reply about"', 1),
        ("tool:convert", 1),
        ("tool:convert status:failed", 0),
        ("went since:1h", 1),
        ("nothingofthat", 0),
    ],
)
def test_a_run_is_found_by_argument_by_reply_and_by_error(page: Page, own: Rig, text: str, count: int) -> None:
    assert own.run(ORDERS, "orders.py").wait() == 0
    assert own.run("print(1)", "other.py").wait() == 0
    expect(page.locator(".run")).to_have_count(2)

    page.get_by_label("Search runs").fill(text)

    expect(page.locator(".run")).to_have_count(count)
    if not count:
        expect(page.locator(".empty")).to_contain_text("Nothing matches")
    page.reload()
    expect(page.get_by_label("Search runs")).to_have_value(text)
    expect(page.locator("#runs")).to_have_attribute("data-count", str(count))


def test_a_search_that_cannot_be_read_says_why(page: Page, own: Rig) -> None:
    page.get_by_label("Search runs").fill("since:yesterday")

    expect(page.locator("#runs")).to_contain_text("since must be a time such as 30m, 3h, 2d, 1w or 2026-01-31")


def test_runs_have_names_and_the_programs_of_a_conversation_are_on_one_page(page: Page, own: Rig) -> None:
    own.write("named.py", NAMED)
    assert own.start_script("named.py").wait() == 0
    expect(page.locator(".run")).to_have_count(3)
    expect(page.locator(".run", has_text="Step 2")).to_contain_text("#eu · #t2 · ann · model-1 · conversation c-17")

    page.get_by_label("Search runs").fill("tag:t1 user:ann")
    expect(page.locator(".run")).to_have_count(1)
    page.locator(".run").click()
    expect(page.locator("h1")).to_have_text("Step 1")
    page.get_by_role("link", name="eu", exact=True).click()
    expect(page.locator(".run")).to_have_count(2)
    page.get_by_role("button", name="Remove the filter tag eu").click()
    expect(page.locator(".run")).to_have_count(3)
    page.locator(".run", has_text="Step 1").click()
    page.get_by_role("link", name="c-17").click()

    expect(page.locator("tbody a")).to_have_text(["Step 1", "Step 2"])
    expect(page.locator(".facts")).to_contain_text("2 programs2 calls")
