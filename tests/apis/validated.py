"""What Prism says of requests made from a document: that it accepts them, and that it refuses broken ones."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.apis.sampling import arguments_of
from toolfold import Call, Runtime
from toolfold.errors import ToolError
from toolfold.sources.openapi.source import Api, api_tools
from toolfold.sources.web.credentials import ApiAuth
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.tool import Tool

Target: TypeAlias = tuple[str, bool]
"""What was measured, and whether it is good enough."""

AT_ONCE = 4
PROGRAM = """
import asyncio

repos = [f"shop-{n}" for n in range(20)]
lists = await asyncio.gather(*[
    github_issues_list_for_repo(owner="acme", repo=repo, state="open", per_page=100) for repo in repos
])
bugs = [
    (repo, issue["number"])
    for repo, issues in zip(repos, lists)
    for issue in issues
    if "bug" in [label["name"] for label in issue["labels"]]
]
for repo, number in bugs:
    await github_issues_create_comment(owner="acme", repo=repo, issue_number=number, body="closing: stale")
    await github_issues_update(owner="acme", repo=repo, issue_number=number, state="closed")
print(len(lists), len(bugs))
"""


@dataclass(frozen=True)
class Public:
    """A public document, and how much of it is to be accepted."""

    path: str
    styles: str
    """What it has that others lack."""
    accepted: int
    refused: int = 0
    """Of requests that are broken on purpose."""
    auth: ApiAuth | None = None
    gives_all: bool = False
    """All arguments are given, not only those that must be."""
    most: int = 0
    """Only so many of its operations are called; 0 for all."""


def checked(public: Public, modules: Path, url: str) -> list[Target]:
    """How many requests Prism accepts, and how many broken ones it refuses."""
    return asyncio.run(_checked(public, modules / public.path, url))


def run_program(document: Path, url: str) -> Target:
    """One program that lists, filters and updates."""
    tools = api_tools(Api(spec=document, name="github", base_url=url, timeout_seconds=60))

    async def run() -> Target:
        async with Runtime(tools) as runtime:
            outcome = await runtime.run(PROGRAM)
        said = (outcome.stdout if outcome.status == "finished" else f"{outcome.problem}").strip()
        is_good = (outcome.stdout, len(outcome.calls)) == ("20 20\n", 60)
        return f"a program of {len(outcome.calls)} calls {outcome.status}: {said}", is_good

    return asyncio.run(run())


async def _checked(public: Public, document: Path, url: str) -> list[Target]:
    api = Api(spec=document, name="api", base_url=url, auth=public.auth, timeout_seconds=60)
    tools = api_tools(api)
    tools = tools[: public.most or len(tools)]
    catalog = Catalog(tools)
    router = Router(catalog)
    turn = asyncio.Semaphore(AT_ONCE)

    async def error_of(at: int, tool: Tool) -> str | None:
        arguments = arguments_of(tool.spec, optional=public.gives_all)
        async with turn:
            return (await router.serve(Call(id=at + 1, tool=tool.spec.name, arguments=arguments))).error

    async def refuses(tool: Tool) -> bool:
        async with turn:
            return await _is_refused(tool, _broken(arguments_of(tool.spec)))

    errors = await asyncio.gather(*[error_of(at, tool) for at, tool in enumerate(tools)])
    with_required = [tool for tool in tools if tool.spec.required]
    refused = sum(await asyncio.gather(*[refuses(tool) for tool in with_required])) if public.refused else 0
    await catalog.close()
    accepted = errors.count(None)
    name = f"{document.parent.parent.name}/{document.name}"
    return [
        (f"{name}: {accepted} of {len(tools)} requests accepted (at least {public.accepted}); {public.styles}",
         accepted >= public.accepted),
        (f"{name}: {refused} of {len(with_required)} broken requests refused (at least {public.refused})",
         refused >= public.refused),
    ]  # fmt: skip


# Any: arguments of somebody else's document.
def _broken(arguments: dict[str, Any]) -> dict[str, Any]:
    """The last one is of a type that no schema asks for there, except where any text will do."""
    return {**arguments, [*arguments][-1]: {"x": [1]}}


async def _is_refused(tool: Tool, arguments: dict[str, Any]) -> bool:
    """Past the router, which would refuse them itself."""
    try:
        await tool.call(arguments)
    except ToolError as error:
        return str(error).startswith(("400", "422"))
    return False
