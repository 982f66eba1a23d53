"""The console in a real browser. Run by `make test NAME=console`; each test waits for what it says, never for a time."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import given_browser, given_own, given_page  # noqa: F401
from tests.console.rig import Rig

pytestmark = pytest.mark.timeout(120)

SIXTY = """# Fetch sixty numbers
total = 0
for start in range(0, 60, 12):
    rows = await asyncio.gather(*(fetch(number=n) for n in range(start, start + 12)))
    total += sum(row["square"] for row in rows)
    print("so far", total)
"""
BROKEN = """texts = ["1.5", "2", "x3"]
first = await convert(text=texts[0])
second = await convert(text=texts[1])
print(first + second)
print(await convert(text=texts[2]))
"""
SHELL = """# Convert "some" texts
total=0
for text in 1.5 "2"; do
  part=$(convert "{\\"text\\":\\"$text\\"}") # a number
  total=$(bc <<< "$total + ${part}")
done
python3 - <<'PY'
import tools
print("if $x", tools.convert(text="4"))
PY
convert '{"text":"x3"}' | jq .
set -e; convert '{"text":"x3"}'
printf '%s\\n' "$total"
"""
PAYMENTS = """# {name}
said = await asyncio.gather(*(pay(amount=n, to="{name}") for n in range({count})), return_exceptions=True)
for one in said:
    print(one)
"""


def test_lanes_of_a_program_grow_in_the_open_page_and_a_call_can_be_opened(page: Page, own: Rig) -> None:
    own.run(SIXTY, "sixty.py")

    page.locator(".run", has_text="Fetch sixty numbers").click()
    fall = page.locator(".fall")
    expect(fall).to_have_attribute("data-calls", re.compile("^(12|24|36|48)$"))
    is_running = page.locator(".pill.running").count()
    expect(fall).to_have_attribute("data-calls", "60")
    expect(page.locator(".pill.finished")).to_be_visible()
    expect(fall).to_have_attribute("data-lanes", "12")
    expect(page.locator("#line-4 .calls")).to_contain_text("60 calls")
    page.locator('.call[data-key="3"]').click()
    expect(page.locator("#call")).to_have_attribute("data-call", "3")
    expect(page.locator("#call")).to_contain_text("square")

    assert (is_running, page.evaluate("window.loadedOnce")) == (1, True)
    expect(page.locator(".out")).to_contain_text("so far")


def test_the_list_is_filtered_in_the_address_and_moves_by_itself(page: Page, own: Rig) -> None:
    expect(page.locator(".empty")).to_contain_text("No runs yet")
    assert own.run("print(1)", "one.py").wait() == 0
    assert own.run("print(prise())", "two.py").wait() == 2
    expect(page.locator(".run")).to_have_count(2)

    page.get_by_label("Status").select_option("rejected")
    expect(page.locator(".run")).to_have_count(1)
    page.get_by_label("Status").select_option("")
    page.get_by_label("Search runs").fill("print(1")
    expect(page.locator(".run")).to_have_count(1)

    expect(page).to_have_url(re.compile(r"#/runs\?q=print%281$"))
    page.reload()
    expect(page.locator(".run")).to_have_count(1)


def test_a_rerun_with_a_fix_makes_no_recorded_call_again(page: Page, own: Rig) -> None:
    assert own.run(BROKEN, "broken.py").wait() == 1
    page.locator(".run").click()
    expect(page.locator(".ln.bad")).to_have_attribute("id", "line-5")

    page.locator("#rerun").click()
    editor = page.get_by_role("textbox", name="Program")
    editor.fill(BROKEN.replace("convert(text=texts[2])", "convrt(text=texts[2])"))
    expect(page.locator("#check")).to_contain_text("no tool 'convrt'; did you mean 'convert'?")
    expect(page.locator(".gutter .bad")).to_have_text("5")
    editor.fill(BROKEN.replace("x3", "3"))
    expect(page.locator("#check")).to_contain_text("no problems found")
    editor.press("Control+Enter")
    expect(page.locator(".pill.finished")).to_be_visible()
    expect(page.locator(".call.r")).to_have_count(2)
    page.get_by_role("link", name="compare").click()
    expect(page.locator(".note")).to_contain_text("2 of 3 replies came from the record; new calls: 1")

    assert own.made == ["convert 1.5", "convert 2", "convert x3", "convert 3"]
    expect(page.locator(".diff .add").first).to_contain_text('"3"]')


def test_a_bash_program_is_read_and_rerun_as_bash(page: Page, own: Rig) -> None:
    assert own.run(SHELL, "report.sh").wait() == 1
    page.locator(".run").click()
    expect(page.locator(".panel", has_text="bash, 13 lines").first).to_be_visible()
    coloured = page.evaluate(
        """() => [...document.querySelectorAll('.ln')].map((line) =>
          [...line.querySelectorAll('.src span')].map((span) => `${span.className} ${span.textContent}`))"""
    )
    shown = page.evaluate(
        "[...document.querySelectorAll('.ln .src')].map((line) => line.textContent).join('\\n') + '\\n'"
    )
    calls = page.evaluate(
        "[...document.querySelectorAll('.ln .calls')].map((one) => [one.id, one.textContent.split(' ·')[0]])"
    )

    assert shown == SHELL
    assert coloured == [
        ['tc # Convert "some" texts'],
        ["tv total"],
        ["tk for", "tk in", 'ts "', "ts 2", 'ts "', "tk do"],
        [
            "tv part", "tv $(", "tt convert", 'ts "', 'ts {\\"text\\":\\"', "tv $text", 'ts \\"}', 'ts "', "tv )",
            "tc # a number",
        ],
        ["tv total", "tv $(", 'ts "', "tv $total", "ts  + ", "tv ${part}", 'ts "', "tv )"],
        ["tk done"],
        ["ts <<'PY'"],
        ["ts import tools"],
        ['ts print("if $x", tools.convert(text="4"))'],
        ["ts PY"],
        ["tt convert", """ts '{"text":"x3"}'"""],
        ["tk set", "tt convert", """ts '{"text":"x3"}'"""],
        [r"ts '%s\n'", 'ts "', "tv $total", 'ts "'],
    ]  # fmt: skip
    assert calls == [["calls-4", "2 calls"], ["calls-11", "1 call"], ["calls-12", "1 call"]]

    page.locator("#rerun").click()
    editor = page.get_by_role("textbox", name="Program")
    editor.fill(SHELL.replace("set -e; convert", "set -e; convrt"))
    expect(page.locator("#check")).to_contain_text("line 12: no tool 'convrt'; did you mean 'convert'?")
    editor.fill(SHELL.replace('; convert \'{"text":"x3"}\'', '; convert \'{"text":"3"}\''))
    expect(page.locator("#check")).to_contain_text("no problems found; bash checks the syntax when it starts")
    editor.press("Control+End")
    editor.press_sequentially("if true; then\nprintf end\nfi")
    editor.press("Control+Enter")
    expect(page.locator(".pill.finished")).to_be_visible()
    expect(page.locator(".panel", has_text="bash, 16 lines").first).to_be_visible()
    expect(page.locator(".out")).to_contain_text("end")
    assert own.made == ["convert 1.5", "convert 2", "convert 4", "convert x3", "convert x3", "convert x3", "convert 3"]


def test_calls_of_three_executions_in_two_processes_are_decided_with_the_keyboard_alone(page: Page, own: Rig) -> None:
    for name, count in (("a", 8), ("b", 7), ("c", 7)):
        own.write(f"{name}.py", PAYMENTS.format(name=name, count=count))
    running = [own.start("run", "a.py"), own.start_library("b.py", "c.py")]
    while page.evaluate("document.activeElement.dataset.view") != "inbox":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".ask-row")).to_have_count(22)
    expect(page.locator("#badge")).to_have_text("22")

    own.kill()
    expect(page.locator("#live")).to_have_text("reconnecting")
    own.open()
    expect(page.locator("#live")).to_have_text("live")
    page.keyboard.press("d")
    page.keyboard.type("not today")
    page.keyboard.press("Enter")
    expect(page.locator(".ask-row")).to_have_count(21)
    page.keyboard.press("j")
    page.keyboard.press("e")
    page.keyboard.press("Control+a")
    page.keyboard.type('{"amount": 77, "to": "edited"}')
    page.keyboard.press("Control+Enter")
    expect(page.locator(".ask-row")).to_have_count(20)
    for left in (19, 18, 17):
        page.keyboard.press("a")
        expect(page.locator(".ask-row")).to_have_count(left)
    page.keyboard.press("Shift+A")
    expect(page.locator(".empty")).to_contain_text("No pending approvals")
    said = "".join(process.communicate()[0] for process in running)

    assert [process.returncode for process in running] == [0, 0]
    assert said.count("paid ") == 21
    assert said.count("'pay' was denied: not today") == 1
    assert own.made.count("pay 77 edited") == 1
    assert len(own.made) == 21


@pytest.mark.parametrize("view", ["runs", "inbox", "tools", "savings"])
def test_every_view_has_names_for_its_controls_and_no_sideways_scroll_on_a_phone(
    page: Page, own: Rig, view: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.evaluate(f"location.hash = '#/{view}'")
    expect(page.locator("main h1")).to_be_visible()

    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, a, textarea')]
          .filter((one) => one.offsetParent && !(one.innerText || one.getAttribute('aria-label') || one.closest('label')?.innerText
            || one.querySelector('img')))
          .map((one) => one.outerHTML)"""
    )
    width = page.evaluate("document.documentElement.scrollWidth")

    assert (nameless, width) == ([], 390)


def test_files_are_shown_as_what_they_are_and_loaded_when_somebody_looks(page: Page, own: Rig) -> None:
    own.write("given.csv", 'name,note\nann,"a, ""b"""\n<b>bob</b>,\n')
    own.write("files.py", "open('made.txt', 'w').write('<i>made</i>')\nprint(len(open('given.csv').read()))\n")
    assert own.start("run", "files.py", "--file", "given.csv").wait() == 0

    page.locator(".run").first.click()
    made = page.locator(".panel", has_text="Output files")
    given = page.locator(".panel", has_text="Input files")
    expect(given).to_contain_text("given.csv")
    made.get_by_text("Preview").click()
    given.get_by_text("Preview").click()
    expect(made.locator("pre")).to_have_text("<i>made</i>")
    expect(given.locator("tbody td")).to_have_text(["ann", 'a, "b"', "<b>bob</b>", ""])
    expect(page.get_by_label("Output")).to_have_count(2)  # what it printed, and its share of the limit


def test_one_yes_with_the_mouse_is_for_the_rest_of_the_program_and_shows_all_that_it_is_for(
    page: Page, own: Rig
) -> None:
    running = own.run("for n in range(3):\n    print(await pay(amount=n, to='x' * 300))\n", "loop.py")
    page.locator("nav").get_by_text("Inbox").click()

    expect(page.locator(".ask-whole")).to_contain_text("x" * 300)
    page.get_by_text("Approve pay for the rest of this program").click()
    expect(page.locator(".empty")).to_contain_text("No pending approvals")

    assert running.wait() == 0
    assert own.made == [f"pay {n} {'x' * 300}" for n in range(3)]
    page.goto(page.url.partition("#")[0] + "#/runs")
    page.locator(".run").click()
    expect(page.locator("#line-2 .calls")).to_contain_text("3 calls")


EXACT = 9_007_199_254_740_993
"""The first integer that a JavaScript number rounds."""


def test_a_person_approves_and_edits_the_very_integer_that_the_tool_gets(page: Page, own: Rig) -> None:
    text = f"print(await pay(amount={EXACT}, to='a'))\nprint(await pay(amount={-(2**70) - 1}, to='{EXACT}:'))\n"
    running = own.run(text, "exact.py")
    page.locator("nav").get_by_text("Inbox").click()

    expect(page.locator('.ask-row td[data-name="amount"]')).to_have_text(str(EXACT))
    expect(page.locator(".ask-whole .lit")).to_have_text(str(EXACT))
    page.keyboard.press("a")
    expect(page.locator('.ask-row td[data-name="amount"]')).to_have_text(str(-(2**70) - 1))
    page.keyboard.press("e")
    field = page.get_by_label("Arguments as JSON")
    shown = field.input_value()
    field.fill(shown.replace(str(-(2**70) - 1), str(2**71 + 1)))
    page.keyboard.press("Control+Enter")

    assert running.wait() == 0
    assert own.made == [f"pay {EXACT} a", f"pay {2**71 + 1} {EXACT}:"]
    assert shown == f'{{\n  "amount": {-(2**70) - 1},\n  "to": "{EXACT}:"\n}}'


def test_approve_all_leaves_out_calls_whose_arguments_are_cut_off(page: Page, own: Rig) -> None:
    text = "await asyncio.gather(pay(amount=1, to='x' * 300 + 'thief'), pay(amount=2, to='a'), pay(amount=3, to='b'))\n"
    running = own.run(text, "cut.py")
    page.locator("nav").get_by_text("Inbox").click()

    expect(page.locator(".ask-row")).to_have_count(3)
    page.locator(".ask-row").nth(1).click()
    cut = page.locator(".ask-row").first
    expect(cut.get_by_role("button", name="Approve")).to_have_count(0)
    page.get_by_role("button", name="Approve 2 of 3").click()
    expect(page.locator(".ask-row")).to_have_count(1)
    expect(page.locator(".ask-whole")).to_contain_text("thief")
    expect(page.get_by_role("button", name="Approve all 1")).to_be_disabled()
    cut.get_by_role("button", name="Approve").click()

    assert running.wait() == 0
    assert sorted(own.made) == [f"pay 1 {'x' * 300}thief", "pay 2 a", "pay 3 b"]


def test_characters_that_turn_text_around_are_shown_as_escapes(page: Page, own: Rig) -> None:
    text = "to = '\\u202e' + 'eno' + '\\u2066'\nprint(await pay(amount=1, to=to))\n"
    running = own.run(text, "bidi.py")
    page.locator("nav").get_by_text("Inbox").click()

    expect(page.locator('.ask-row td[data-name="to"]')).to_have_text("\\u202eeno\\u2066")
    expect(page.locator(".ask-whole .str")).to_have_text('"\\u202eeno\\u2066"')
    page.keyboard.press("e")
    shown = page.get_by_label("Arguments as JSON").input_value()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".empty")).to_be_visible()
    assert running.wait() == 0
    page.goto(page.url.partition("#")[0] + "#/runs")
    page.locator(".run").click()
    expect(page.locator(".out")).to_contain_text("paid 1 to \\u202eeno\\u2066")

    assert shown == '{\n  "amount": 1,\n  "to": "\\u202eeno\\u2066"\n}'
    assert own.made == ["pay 1 \u202eeno\u2066"]
