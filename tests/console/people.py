"""What people do all day with the console, in a real browser: find, share, decide, and see what it cost."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import NASTY, given_browser, given_own, given_page  # noqa: F401
from tests.console.rig import CONFIG, Rig, rig
from tests.ledger.made_up import begun, given, made, outcome
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Program

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
    own.write("toolfold.yaml", f"{CONFIG}prices: {{model-*: {{input: 3, output: 15}}}}\n")
    own.kill()
    page.goto(own.open())
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
    page.get_by_role("link", name="c-17", exact=True).click()

    expect(page.locator("tbody a")).to_have_text(["Step 1", "Step 2"])
    expect(page.locator(".facts")).to_contain_text("2 programs2 calls")
    expect(page.locator(".facts")).to_contain_text(re.compile(r"≈ \$0\.000\d+ for the programs"))
    expect(page.locator("tbody td:nth-child(8)")).to_have_text([re.compile(r"^\$0\.000\d+$")] * 2)


MIXED = """# Twelve calls
await asyncio.gather(*(fetch(number=n) for n in range(8)))
for text in ("1.5", "no number", "2", "none either"):
    try:
        await convert(text=text)
    except Exception as error:
        print(error)
await echo(text="x" * 3000)
"""


def test_a_call_has_an_address_that_opens_in_another_browser(page: Page, own: Rig, browser: Browser) -> None:
    assert own.run(MIXED, "mixed.py").wait() == 0
    page.locator(".run").click()
    expect(page.locator("#call")).to_have_attribute("data-call", "10")  # the first that failed
    expect(page).to_have_url(re.compile(r"#/runs/[^/]+$"))
    page.locator('.call[data-key="3"]').click()
    expect(page.locator("#call")).to_have_attribute("data-call", "3")

    address = page.url
    other = browser.new_context()
    opened = other.new_page()
    opened.goto(address)
    expect(opened.locator("main")).to_contain_text("not signed in")  # an address is no right
    page.goto("about:blank")
    page.goto(address)
    other.add_cookies(page.context.cookies())
    opened.reload()

    for one in (page, opened):
        expect(one.locator("#call")).to_have_attribute("data-call", "3")
        expect(one.locator('.call[aria-selected="true"]')).to_have_attribute("data-key", "3")
        expect(one.locator(".ln.hit")).to_have_attribute("id", "line-2")
    opened.goto(re.sub("calls/3$", "calls/99", address))
    expect(opened.locator("#call")).to_contain_text("This run has no call 99")
    other.close()


def test_calls_are_filtered_sorted_and_walked_through_with_the_keyboard(page: Page, own: Rig) -> None:
    assert own.run(MIXED, "mixed.py").wait() == 0
    page.locator(".run").click()
    call, shown = page.locator("#call"), page.locator(".calls-list")
    expect(page.locator('.call[data-key="10"]')).to_contain_text("could not convert")
    shown.scroll_into_view_if_needed()
    expect(page.locator('.call[data-key="10"]')).to_be_in_viewport(ratio=0.9)
    expect(page.locator('.call[data-key="9"]')).to_contain_text('text="1.5"')

    page.keyboard.press("n")
    expect(call).to_have_attribute("data-call", "12")
    page.get_by_role("button", name="Next failed").click()
    expect(call).to_have_attribute("data-call", "10")
    page.get_by_label("Order of calls").select_option("largest")
    expect(page.locator(".call").first).to_have_attribute("data-key", "13")
    page.get_by_label("Order of calls").select_option("failed")
    page.locator(".call").first.click()
    for key, number in (("j", "12"), ("j", "1"), ("k", "12"), ("ArrowUp", "10")):
        page.keyboard.press(key)
        expect(call).to_have_attribute("data-call", number)
    page.get_by_label("Filter calls").fill("number=7")
    expect(shown).to_have_attribute("data-count", "1")
    expect(page.locator(".call")).to_have_count(1)
    expect(page.locator(".call")).to_contain_text("number=7")
    page.get_by_label("Filter calls").fill("nothing of that")
    expect(shown).to_have_attribute("data-count", "0")


ARGUMENTS = {"amount": 2**64, "to": 'it\'s \u202e "me"\\n\n', "no name": [None, True, {"a": 1.5}], "class": "é"}


def test_what_a_call_was_and_got_can_be_copied(page: Page, own: Rig) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = "print(await price(1))\n"

    async def write() -> None:
        ledger = SqliteLedger(own.folder / "ledger.sqlite")
        ledger.begin(begun("one", program=Program(text=text)))
        ledger.note("one", made(1, **ARGUMENTS), given(1, [2**70, "<b>"], **ARGUMENTS))
        await ledger.finish("one", outcome("one"), wait=True)
        await ledger.close()

    with ThreadPoolExecutor() as pool:  # Playwright has a loop of its own in this thread
        pool.submit(lambda: asyncio.run(write())).result()
    page.evaluate("location.hash = '#/runs/one'")
    expect(page.locator("#call")).to_have_attribute("data-call", "1")
    copied = {}
    for button in ("id", "", "arguments", "as Python", "reply", "link"):
        page.get_by_role("button", name=f"Copy {button}".strip(), exact=True).click()
        expect(page.locator("#toast")).to_contain_text("Copied")
        copied[button] = page.evaluate("navigator.clipboard.readText()")
        page.evaluate("document.getElementById('toast').replaceChildren()")

    assert (copied["id"], copied[""], copied["link"]) == (
        "one",
        text,
        f"http://127.0.0.1:{own.port}/#/runs/one/calls/1",
    )
    assert (json.loads(copied["arguments"]), json.loads(copied["reply"])) == (ARGUMENTS, [2**70, "<b>"])
    assert copied["as Python"].startswith("await price(amount=18446744073709551616, to=")
    assert eval(copied["as Python"].replace("await price", "dict")) == ARGUMENTS


ROLES = """
tools: {modules: [shop.py], ask: [pay]}
approvals: console
approvals_wait: 30m
ledger: {where: ledger.sqlite}
http:
  port: 0
  keys:
    shop:
      - {key: agent-key, roles: [run]}
      - {key: person-key, roles: [approve], name: ann}
"""


def test_a_key_that_may_only_approve_decides_and_the_decision_has_its_name(browser: Browser, tmp_path: Path) -> None:
    with rig(tmp_path) as own:
        own.write("toolfold.yaml", ROLES)
        server = own.start("serve", "--console")
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        own.write("agent.py", AGENT)
        agent = own.start_script("agent.py", address[0])
        page = browser.new_page()
        page.set_default_timeout(30_000)
        page.goto(f"{address[0]}/console/#/inbox")
        page.get_by_label("API key").fill("person-key")
        page.get_by_role("button", name="Sign in").click()

        expect(page.locator(".ask-row .wait")).to_have_text(re.compile(r"^waiting \d+ s · expires in (29 min|30 min)$"))
        page.locator(".ask-row a").click()
        expect(page.locator("#call .wait")).to_contain_text("expires in")
        expect(page.get_by_role("button", name="Rerun with a fix")).to_be_disabled()
        expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
        page.get_by_role("link", name="decide in the inbox").click()
        page.get_by_role("button", name="Approve", exact=True).click()
        expect(page.locator(".empty")).to_contain_text("No pending approvals")
        said = agent.communicate()[0]
        page.goto(f"{address[0]}/console/#/runs")
        page.locator(".run").click()
        expect(page.locator("#call")).to_contain_text(re.compile(r"approved by console \(shop, ann\) after \d"))

    assert "paid 5 to bob" in said
    assert own.made == ["pay 5 bob"]


AGENT = """
import sys
import urllib.request

body = b'{"lang": "py", "code": "print(await pay(amount=5, to=\\'bob\\'))"}'
headers = {"content-type": "application/json", "x-api-key": "agent-key"}
with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/exec", body, headers)) as answer:
    print(answer.read().decode())
"""


def test_a_rejected_run_shows_its_problem_and_nothing_empty(page: Page, own: Rig) -> None:
    assert own.run("x = 1\nprint(await convrt(text='1'))\n", "rejected.py").wait() == 2
    page.locator(".run").click()

    expect(page.locator(".problem")).to_have_text("line 2: no tool 'convrt'; did you mean 'convert'?")
    expect(page.locator(".note").first).to_contain_text("Nothing ran")
    expect(page.locator(".ln.bad")).to_have_attribute("id", "line-2")
    expect(page.locator("h2:visible")).to_have_text(["Program"])
    expect(page.get_by_role("button", name="Rerun with a fix")).to_be_enabled()


def test_a_first_start_a_used_link_and_a_console_that_is_gone_say_what_to_do(
    page: Page, own: Rig, browser: Browser
) -> None:
    expect(page.locator(".first li")).to_have_count(3)
    expect(page.locator(".first")).to_contain_text("toolfold run first.py")
    stranger = browser.new_page()
    answer = stranger.goto(f"http://127.0.0.1:{own.port}/login?token=used")
    assert answer is not None
    assert (answer.status, answer.headers["content-type"]) == (403, "text/html; charset=utf-8")
    expect(stranger.locator("h1")).to_have_text("This link was already used")
    stranger.get_by_role("link", name="open the console").first.click()
    expect(stranger.locator("h1")).to_have_text("Sign in")
    stranger.close()
    page.evaluate("location.hash = '#/runs/0000000000000000'")
    expect(page.locator("[role=alert]")).to_contain_text("It may have been deleted since")
    page.get_by_role("link", name="Back to all runs").click()
    expect(page.locator("h1")).to_have_text("Runs")
    page.keyboard.press("Home")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Runs")

    own.kill()
    page.evaluate("location.hash = '#/tools'")
    expect(page.locator("[role=alert]")).to_contain_text("The console does not answer")
    own.open()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("h1")).to_have_text("Tools")


def test_a_downloaded_page_opens_from_disk_and_runs_nothing(page: Page, own: Rig) -> None:
    text = f"# {NASTY}\nprint(await echo(text={NASTY!r}))\nawait convert(text={NASTY!r})\n"
    assert own.run(text, "nasty.py").wait() == 1
    page.locator(".run").click()
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download HTML").click()
    file = own.folder / "run.html"
    waiting.value.save_as(file)
    asked: list[str] = []
    page.context.set_offline(True)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())

    expect(page.locator("h2")).to_have_text(["Calls over time", "Program", "Output", "Errors", "Calls (2)"])
    expect(page.locator("#call-2")).to_contain_text("could not convert string to float")
    expect(page.locator("#call-2")).to_have_attribute("open", "")
    page.locator("#call-1 summary").click()
    expect(page.locator("#call-1 pre").first).to_contain_text("<img src=x onerror=alert(1)>")
    color = page.evaluate("getComputedStyle(document.querySelector('rect')).fill")

    assert page.locator("script, img, iframe, [onerror], [onload], [style]").count() == 0
    assert (asked, color) == ([file.as_uri()], "rgb(74, 91, 212)")


def test_the_timeline_zooms_with_keyboard_and_mouse_and_its_legend_filters(page: Page, own: Rig) -> None:
    assert own.run(MIXED, "mixed.py").wait() == 0
    page.locator(".run").click()
    fall, canvas = page.locator(".fall"), page.locator(".fall canvas")
    expect(fall).to_have_attribute("data-from", "0")

    def sight() -> tuple[float, float]:
        page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
        return tuple(float(str(fall.get_attribute(name))) for name in ("data-from", "data-until"))  # type: ignore[return-value]

    _, end = sight()
    page.locator(".calls-list").evaluate("one => { one.scrollTop = 0; }")
    page.locator('.call[data-key="1"]').click()
    canvas.focus()
    page.keyboard.press("+")
    first, until = sight()
    assert (until - first) == pytest.approx(end / 2)
    page.keyboard.press("Shift+ArrowRight")
    moved = sight()
    assert moved == pytest.approx((first + end / 8, until + end / 8))
    page.keyboard.press("0")
    assert sight() == (0, end)
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 40, steps=5)
    page.mouse.up()
    assert sight() == pytest.approx((end / 4, end * 3 / 4), rel=0.03)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    drawn = sight()
    assert (drawn[1] - drawn[0]) == pytest.approx(end / 2 * 0.8, rel=0.03)
    canvas.dblclick(position={"x": 200, "y": 10})
    assert sight() == (0, end)

    legend = page.get_by_role("group", name="Tools")
    expect(legend.get_by_role("button")).to_have_text(["fetch 8", "convert 4", "echo 1"])
    legend.get_by_role("button", name="convert").click()
    expect(page.locator(".calls-list")).to_have_attribute("data-count", "4")
    legend.get_by_role("button", name="echo").click()
    expect(page.locator(".calls-list")).to_have_attribute("data-count", "5")
    expect(legend.locator("[aria-pressed=true]")).to_have_count(2)
    for tool in ("convert", "echo"):
        legend.get_by_role("button", name=tool).click()
    expect(page.locator(".calls-list")).to_have_attribute("data-count", "13")
