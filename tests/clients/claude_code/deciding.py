"""A console beside the CLI, and a person at it who approves what waits there, through the API that the page reads."""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAYING = '''
from pathlib import Path

from toolfold import tool


@tool
async def pay(amount: int, to: str) -> str:
    """Pays."""
    with Path(__file__).with_name("paid.txt").open("a") as file:
        file.write(f"{amount} {to}\\n")
    return f"paid {amount} to {to}"
'''


def asking(approvals: str) -> Any:
    """A config in which somebody must approve payments."""

    def config(work: Path, packages: Path) -> dict[str, Any]:
        (work / "pay.py").write_text(PAYING)
        return {
            "servers": [],
            "tools": {"modules": ["pay.py"], "ask": ["pay"]},
            "ledger": {"where": "ledger.sqlite"},
            "approvals": approvals,
        }

    return config


@contextmanager
def console(work: Path) -> Iterator[str]:
    """`toolfold console` in the folder, for the user whom the CLI runs as; gives its link."""
    # The key of decisions is in the state folder, so that must be the one of the CLI.
    own = {"HOME": str(work / "home"), "XDG_STATE_HOME": "", "PYTHONPATH": str(ROOT / "src")}
    environment = {**os.environ, **own}
    command = [sys.executable, "-m", "toolfold", "console", "--port", "0", "--config", str(work / "toolfold.yaml")]
    process = subprocess.Popen(command, cwd=work, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"console at (http://\S+)", line):
                yield found[1]
                return
        raise AssertionError("the console did not start")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@contextmanager
def person(work: Path) -> Iterator[None]:
    """Somebody who signs in, waits for a question, and approves it with other arguments."""
    with console(work) as link:
        is_over = threading.Event()
        thread = threading.Thread(target=_decide, args=(link, is_over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def _decide(link: str, is_over: threading.Event) -> None:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    opener.open(link).close()
    url = link.partition("/login")[0] + "/api/approvals"
    while not is_over.wait(0.1):
        with opener.open(url) as answer:
            waiting = json.load(answer)["approvals"]
        for one in waiting:
            shown = {key: one[key] for key in ("execution_id", "epoch", "call_id", "digest")}
            changed = {**one["arguments"]["json"], "to": "grace"}
            body = {"decisions": [{**shown, "approved": True, "arguments": changed}]}
            headers = {"Content-Type": "application/json"}
            opener.open(urllib.request.Request(url, json.dumps(body).encode(), headers)).close()
