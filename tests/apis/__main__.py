"""Public documents, and a server nobody here wrote that validates requests against one: `make test-apis`.

The folder holds what `npm` fetched: GitHub's document, Prism, and documents of other styles.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.apis.questions import QUESTIONS
from tests.apis.sampling import arguments_of
from toolfold import Call, Runtime
from toolfold.errors import UsageError
from toolfold.models import ToolSpec
from toolfold.program.stubs import module_text
from toolfold.sources.openapi.source import Api, api_tools
from toolfold.sources.openapi.store import Store
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.search import Index
from toolfold.tools.tool import Tool

Target: TypeAlias = tuple[str, bool]
"""What was measured, and whether it is good enough."""

GITHUB = "node_modules/@octokit/openapi/generated/api.github.com.json"
OTHERS = ("@figma/rest-api-spec/openapi/openapi.yaml", "@scalar/galaxy/dist/latest.yaml")
ACCEPTED, RECALL, FIRST_SECONDS, LATER_SECONDS = 300, 0.8, 1.5, 0.2
IN_ONE_MODULE = 100
START_SECONDS = 180
PROGRAM = """
repos = await github_repos_list_for_org(org="acme")
found = []
for n in range(40):
    issue = await github_issues_get(owner="acme", repo="shop", issue_number=n + 1)
    found.append(issue["number"])
updated = await github_issues_update(owner="acme", repo="shop", issue_number=1, state="closed")
print(len(repos) > 0, len(found), updated["title"] != "")
"""


def main(folder: Path) -> int:
    """Exit status 0 if every target is met."""
    document = folder / GITHUB
    results = [*loading(document)]
    tools = api_tools(Api(spec=document, name="github", base_url="https://api.github.com"))
    results += [("stubs of all operations pass mypy --strict", stubs_pass([tool.spec for tool in tools]))]
    results += [recall(Index([tool.spec for tool in tools]))]
    results += [other(folder / "node_modules" / name) for name in OTHERS]
    with prism(folder, document) as url:
        results += asyncio.run(validated(document, url))
    for text, is_met in results:
        print(f"{'met   ' if is_met else 'MISSED'} {text}")
    return 0 if all(is_met for _, is_met in results) else 1


def loading(document: Path) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as cache:
        for what, limit in (("first", FIRST_SECONDS), ("later", LATER_SECONDS)):
            began = time.perf_counter()
            tools = api_tools(Api(spec=document, base_url="https://api.github.com"), store=Store(Path(cache)))
            seconds = time.perf_counter() - began
            yield f"{len(tools)} operations loaded in {seconds:.2f} s ({what}; at most {limit} s)", seconds <= limit


def stubs_pass(specs: Sequence[ToolSpec]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        for at in range(0, len(specs), IN_ONE_MODULE):
            Path(folder, f"part{at}.py").write_text(module_text(specs[at : at + IN_ONE_MODULE]))
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", folder], check=False)
    return done.returncode == 0


def recall(index: Index) -> Target:
    hits = [name in {hit.spec.short_name for hit in index.search(text, limit=5)} for text, name in QUESTIONS]
    share = sum(hits) / len(hits)
    return f"recall@5 over {len(QUESTIONS)} questions is {share:.2f} (at least {RECALL})", share >= RECALL


def other(path: Path) -> Target:
    try:
        tools = api_tools(Api(spec=path, base_url="https://api.example.com"))
        is_good = stubs_pass([tool.spec for tool in tools])
    except UsageError as error:
        return f"{path.name}: {error}", False
    return f"{path.parent.name}/{path.name}: {len(tools)} operations, their stubs pass mypy --strict", is_good


@contextlib.contextmanager
def prism(folder: Path, document: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", str(folder / "node_modules/.bin/prism"), "mock", "-p", str(port), "-v", "warn", str(document)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(START_SECONDS):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/rate_limit").close()
                break
            time.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def validated(document: Path, url: str) -> list[Target]:
    tools = api_tools(Api(spec=document, name="github", base_url=url, timeout_seconds=60))
    router = Router(Catalog(tools))
    at_once = asyncio.Semaphore(4)

    async def is_accepted(at: int, tool: Tool) -> bool:
        async with at_once:
            return (
                await router.serve(Call(id=at, tool=tool.spec.name, arguments=arguments_of(tool.spec)))
            ).error is None

    chosen = tools[::3]
    accepted = sum(await asyncio.gather(*[is_accepted(at + 1, tool) for at, tool in enumerate(chosen)]))
    async with Runtime(tools) as runtime:
        outcome = await runtime.run(PROGRAM)
    return [
        (f"Prism accepted {accepted} of {len(chosen)} requests (at least {ACCEPTED})", accepted >= ACCEPTED),
        (
            f"a program of {len(outcome.calls)} calls: {outcome.status} {outcome.stdout.strip()}",
            outcome.stdout == "True 40 True\n",
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
