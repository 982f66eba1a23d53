"""The keyboard focus stays on the same element while the page changes by itself, or is nowhere if that element is gone."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.browsing import given_browser, given_own, given_page  # noqa: F401
from tests.console.checks import PAYMENTS, SIXTY
from tests.console.rig import Rig

pytestmark = pytest.mark.timeout(120)


def tab_to(page: Page, goal: Locator) -> None:
    """Press Tab until this element has the focus."""
    expect(goal).to_be_visible()
    for _ in range(100):
        page.keyboard.press("Tab")
        if goal.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"Tab never reaches {goal}")


def is_nowhere(page: Page) -> bool:
    """Nothing on the page has the focus."""
    return bool(page.evaluate("document.activeElement === document.body"))


def second_page(page: Page, address: str) -> Page:
    """Another page of the same person."""
    other = page.context.new_page()
    other.set_default_timeout(30_000)
    other.goto(page.url.partition("#")[0] + address)
    return other


def test_a_row_of_the_list_keeps_the_focus_while_thirty_runs_push_it_out_of_sight(page: Page, own: Rig) -> None:
    assert own.run("# First\nprint(1)\n", "first.py").wait() == 0
    first = page.locator(".run", has_text="# First")
    tab_to(page, first)
    address = page.evaluate("document.activeElement.getAttribute('href')")

    own.write("later.py", "# Later\nprint(2)\n")
    assert own.start_library(*["later.py"] * 30).wait() == 0
    expect(page.locator("#runs")).to_have_attribute("data-count", "31")
    expect(page.locator(".run").first).to_contain_text("# Later")

    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == address


def test_a_figure_keeps_the_focus_when_it_becomes_an_alert(page: Page, own: Rig) -> None:
    card = page.get_by_role("link", name="failed in the last hour")
    tab_to(page, card)

    assert own.run("print(1 / 0)\n", "broken.py").wait() == 1

    expect(page.locator(".stat.alert")).to_be_focused()


def test_a_line_and_a_call_keep_the_focus_while_calls_arrive_and_end(page: Page, own: Rig) -> None:
    own.run(SIXTY, "sixty.py")
    page.locator(".run", has_text="Fetch sixty numbers").click()
    tab_to(page, page.locator("#line-4 .calls"))
    expect(page.locator("#line-4 .calls")).to_contain_text("60 calls")
    expect(page.locator("#line-4 .calls")).to_be_focused()

    page.goto(page.url.partition("#")[0] + "#/runs")
    running = own.run("await asyncio.gather(pay(amount=1, to='a'), pay(amount=2, to='b'))\n", "pay.py")
    page.locator(".run", has_text="asyncio.gather(pay").click()
    call = page.locator('.call[data-key="2"]')
    tab_to(page, call)
    other = second_page(page, "#/inbox")
    other.locator(".ask-row").nth(1).get_by_role("button", name="Deny").click()
    other.keyboard.press("Enter")
    expect(page.locator(".call.f")).to_have_attribute("data-key", "2")
    expect(call).to_be_focused()
    other.keyboard.press("a")
    assert running.wait() == 1


def test_the_focus_in_the_inbox_stays_with_its_call_and_is_nowhere_once_the_call_is_decided(
    page: Page, own: Rig
) -> None:
    running = [own.run(PAYMENTS.format(name="b", count=3), "b.py")]
    page.locator("nav").get_by_text("Inbox").click()
    expect(page.locator(".ask-row")).to_have_count(3)
    row = page.locator(f'.ask-row[data-key="{page.locator(".ask-row").nth(1).get_attribute("data-key")}"]')
    tab_to(page, row.get_by_role("button", name="Edit"))

    running.append(own.run(PAYMENTS.format(name="a" * 300, count=3), "a.py"))
    expect(page.locator(".ask-row")).to_have_count(6)
    expect(row.get_by_role("button", name="Edit")).to_be_focused()

    tab_to(page, page.get_by_role("button", name="Approve pay for the rest of this program"))
    other = second_page(page, "#/inbox")
    other.get_by_role("button", name="Approve pay for the rest of this program").click()
    expect(page.locator(".ask-row")).to_have_count(3)
    assert is_nowhere(page)
    page.keyboard.press("Enter")
    expect(other.locator(".ask-row")).to_have_count(3)
    other.get_by_role("button", name="Approve pay for the rest of this program").click()
    assert [process.wait() for process in running] == [0, 0]


def test_read_does_not_hand_the_focus_to_a_button_that_decides(page: Page, own: Rig) -> None:
    text = "await asyncio.gather(pay(amount=1, to='a'), pay(amount=2, to='x' * 300))\n"
    running = own.run(text, "cut.py")
    page.locator("nav").get_by_text("Inbox").click()
    tab_to(page, page.get_by_role("button", name="Read"))

    page.keyboard.press("Enter")

    expect(page.locator(".ask-whole")).to_contain_text("x" * 300)
    assert is_nowhere(page)
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+A")
    expect(page.locator(".ask-row")).to_have_count(1)
    page.keyboard.press("a")
    assert running.wait() == 0
