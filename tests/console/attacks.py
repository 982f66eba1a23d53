"""Attacks on the page in a real browser: what programs and tools write never runs, and other pages get nothing."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import NASTY, REBOUND, given_browser, given_own, given_page  # noqa: F401
from tests.console.rig import Rig
from toolfold.ledger.base import CallEntry, Moment, ReplyEntry, StartRecord
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Call, CallRecord, ContextSaved, File, Limits, Outcome, Problem, Program, Reply, ToolSpec

pytestmark = pytest.mark.timeout(120)

PROGRAM = f"# {NASTY}\nsaid = await echo(text={NASTY!r})\nprint(said)\nraise ValueError(said)\n"
TRY_EVERYTHING = """async (url) => {
  const tried = {};
  const attempt = async (name, act) => { try { tried[name] = await act(); } catch (error) { tried[name] = 'refused'; } };
  await attempt('read', async () => (await fetch(`${url}/api/executions`, { credentials: 'include' })).text());
  await attempt('read blind', async () => (await fetch(`${url}/api/executions`, { credentials: 'include', mode: 'no-cors' })).type);
  const body = JSON.stringify({ decisions: [] });
  await attempt('write', async () => (await fetch(`${url}/api/approvals`, { method: 'POST', credentials: 'include', headers: { 'Content-Type': 'application/json' }, body })).text());
  await attempt('script', () => new Promise((done) => { const one = document.createElement('script'); one.src = `${url}/api/executions`; one.onload = () => done('loaded'); one.onerror = () => done('refused'); document.head.append(one); }));
  await attempt('stream', () => new Promise((done) => { const one = new EventSource(`${url}/api/events`, { withCredentials: true }); one.onmessage = () => done('read'); one.onerror = () => { one.close(); done('refused'); }; }));
  await attempt('frame', () => new Promise((done) => { const one = document.createElement('iframe'); one.src = `${url}/`; one.onload = () => { let text = ''; try { text = one.contentDocument.body.innerText; } catch { text = ''; } done(text || 'refused'); }; document.body.append(one); }));
  return tried;
}"""


def test_what_a_program_writes_is_text_and_never_runs(page: Page, own: Rig) -> None:
    assert own.run(PROGRAM, "nasty.py").wait() == 1

    expect(page.locator(".run")).to_contain_text("<script>alert(2)</script>")
    page.locator(".run").click()
    expect(page.locator("#call")).to_contain_text("onerror=alert(1)")
    expect(page.locator(".problem").first).to_contain_text("<script>alert(2)</script>")
    expect(page.locator(".out")).to_contain_text("onerror")

    assert page.locator("main script, main img, main iframe").count() == 0


def test_markup_in_every_field_of_a_record_is_text_in_every_view(page: Page, own: Rig) -> None:
    with ThreadPoolExecutor() as pool:  # Playwright has a loop of its own in this thread
        pool.submit(lambda: asyncio.run(_write_nasty(own))).result()
    heads = {
        "runs": "Runs", "inbox": "Inbox", "tools": "Tools", "savings": "Savings", "runs/n1": "n1",
        "runs/n1/rerun": "Rerun with a fix", "runs/n2": "n2", "runs/n2/compare": "Compared with",
    }  # fmt: skip
    found = {}
    for view, head in heads.items():
        page.evaluate(f"location.hash = '#/{view}'")
        expect(page.locator("main h1").first).to_have_text(re.compile(f"^{head}"))
        if view != "runs/n1/rerun":  # there it is in a text field
            expect(page.locator("main")).to_contain_text("onerror=alert")
        found[view] = page.locator("main script, main img, main iframe, main [onerror], main [onclick]").count()

    assert found == dict.fromkeys(heads, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_reads_nothing_and_does_nothing(page: Page, own: Rig, host: str) -> None:
    assert own.run("print('secret words')", "one.py").wait() == 0
    expect(page.locator(".run")).to_have_count(1)
    url = f"http://127.0.0.1:{own.port}"

    with other_origin() as port:
        page.goto(f"http://{host}:{port}/")
        tried = page.evaluate(TRY_EVERYTHING, url)

    assert "secret words" not in json.dumps(tried)
    assert {name: what for name, what in tried.items() if what != "refused"} == {}


def test_a_name_that_points_here_is_turned_away(page: Page, own: Rig) -> None:
    answers = [page.goto(f"http://{REBOUND}:{own.port}{path}") for path in ("/", "/api/executions", "/static/app.js")]

    assert [answer.status if answer else 0 for answer in answers] == [403, 403, 403]
    expect(page.locator("body")).to_contain_text("serves only this machine")


@contextmanager
def other_origin() -> Iterator[int]:
    """A page of somebody else on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title><body>")

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


async def _write_nasty(own: Rig) -> None:
    """An execution that ended, its rerun that waits, and markup wherever a text can be."""
    ledger = SqliteLedger(own.folder / "ledger.sqlite")
    spec = ToolSpec(name=NASTY, python_name="nasty", description=NASTY, source=NASTY)
    for name, rerun_of in (("n1", ""), ("n2", "n1")):
        ledger.begin(
            StartRecord(
                execution_id=name, program=Program(text=f"# {NASTY}\nprint(1)"), tools=(spec,), limits=Limits(),
                began_at=time.time() - 60, interface=NASTY, session=NASTY, tenant=NASTY, engine=NASTY, isolation=NASTY,
                rerun_of=rerun_of, files=(File(name=f"{NASTY}.txt", data=b"x", mime=NASTY),),
            )
        )  # fmt: skip
        arguments = {NASTY: NASTY, "rows": [{NASTY: NASTY}, {NASTY: 1}]}
        picture = {"mime": "image/png", "data": {"base64": '"><script>alert(5)</script>'}, "name": NASTY}
        records = [
            CallRecord(id=1, name=NASTY, arguments=arguments, line=2, seconds=0.1),
            CallRecord(id=2, name=NASTY, arguments=arguments, line=2, error=NASTY, used_arguments=arguments),
        ]
        ledger.note(name, CallEntry(Call(id=1, tool=NASTY, arguments=arguments, line=2)))
        ledger.note(name, ReplyEntry(Reply(call_id=1, value=[arguments, {NASTY: picture["name"]}]), records[0]))
        ledger.note(name, ReplyEntry(Reply(call_id=2, error=NASTY), records[1]))
        ledger.note(name, Moment(kind="printed", at=0.1, text=NASTY, facts={"stream": NASTY}))
        problem = Problem(kind="exception", message=NASTY, line=2)
        await ledger.finish(
            name,
            Outcome(
                execution_id=name, status="failed", stdout=NASTY, stderr=NASTY, problem=problem, calls=tuple(records),
                files=(File(name=f"{NASTY}.png", data=b"x", mime="image/svg+xml"),), hints=(NASTY,),
                context_saved=ContextSaved(bytes=1),
            ),
            wait=True,
        )  # fmt: skip
    ledger.begin(
        StartRecord(
            execution_id="n3", program=Program(text=f"x = '{NASTY}'"), tools=(spec,), limits=Limits(),
            began_at=time.time() - 60,
        )
    )  # fmt: skip
    asked = {"tool": NASTY, "arguments": {NASTY: NASTY}, "line": 1}
    ledger.note("n3", Moment(kind="asked", at=0.1, call_id=1, facts=asked))
    await ledger.flush("n3")
    await ledger.close()
