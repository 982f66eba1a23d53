"""A run of 10,000 calls in a real browser: how soon it is there, and whether it scrolls without a long task.

`make test NAME=console ARGS="large.py -s"` prints the figures; they are from the browser's own clock and trace.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import given_browser, given_own, given_page  # noqa: F401
from tests.console.figures import note
from tests.console.rig import CONFIG, Rig

pytestmark = pytest.mark.timeout(280)

Task: TypeAlias = tuple[float, float]
"""Milliseconds that a task took, and those of them that it worked: other work on the machine is not the page's."""
PROGRAM = """# Ten thousand calls
for start in range(0, 10_000, 50):
    await asyncio.gather(*(echo(text=str(n)) for n in range(start, start + 50)))
    print(start)
"""
OPEN_SECONDS = 1.5
LONGEST_TASK_MS = 100
OPEN = """async ([id]) => {
  const began = performance.now();
  location.hash = `#/runs/${id}`;
  const isThere = () => document.querySelector('.fall')?.dataset.calls === '10000' && document.querySelector('.call')
    && document.querySelector('#call')?.dataset.call;
  while (!isThere()) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
SCROLL = """async (name) => {
  const list = document.querySelector(name);
  const frames = [];
  for (let at = 0; at <= 120; at += 1) {
    list.scrollTop = (list.scrollHeight * at) / 120;
    const began = performance.now();
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - began);
  }
  return Math.max(...frames);
}"""


def test_a_run_of_ten_thousand_calls_opens_at_once_and_scrolls_without_a_long_task(
    page: Page, browser: Browser, own: Rig
) -> None:
    own.write("toolfold.yaml", CONFIG + "limits: {calls: 20000}\n")
    began = time.monotonic()
    assert own.run(PROGRAM, "large.py").wait() == 0
    print(f"\n10,000 calls ran in {time.monotonic() - began:.1f} s")
    expect(page.locator(".run")).to_contain_text("10,000")
    (run,) = page.evaluate(
        "fetch('api/executions').then((a) => a.json()).then((b) => b.executions.map((r) => r.execution_id))"
    )

    opened: list[float] = []
    opening: list[Task] = []
    scrolling: list[Task] = []
    for _ in range(5):
        with traced(browser, page) as longest:
            opened.append(page.evaluate(OPEN, [run]) / 1000)
        opening += longest
        with traced(browser, page) as longest:
            for part in (".calls-list", ".fall .scroll", ".code-view"):
                page.evaluate(SCROLL, part)
            page.mouse.wheel(0, 2000)
        scrolling += longest
        page.evaluate("location.hash = '#/runs'")
        expect(page.locator(".run")).to_be_visible()
    note("10,000 calls open", max(opened), OPEN_SECONDS, "s", f"slowest of 5; median {sorted(opened)[2]:.2f} s")
    for name, (took, worked) in (("opening", max(opening)), ("scrolling", max(scrolling))):
        detail = f"10,000 calls, from the browser's trace; it worked for {worked:.1f} ms of it"
        note(f"longest task, {name}", took, LONGEST_TASK_MS, "ms", detail)

    assert max(opened) <= OPEN_SECONDS
    assert max(scrolling)[0] <= LONGEST_TASK_MS


@contextmanager
def traced(browser: Browser, page: Page) -> Iterator[list[Task]]:
    """Gives the longest task of the thread that the page runs on, once it is left."""
    longest: list[Task] = []
    browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline", "__metadata"])
    try:
        yield longest
    finally:
        longest.append(_longest_task(browser.stop_tracing()))


def _longest_task(trace: bytes) -> Task:
    events = json.loads(trace)["traceEvents"]
    pages = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    tasks = [one for one in events if one["name"].endswith("RunTask") and (one["pid"], one["tid"]) in pages]
    assert tasks, "the trace has no tasks of the page"
    return max((one.get("dur", 0) / 1000, one.get("tdur", 0) / 1000) for one in tasks)
