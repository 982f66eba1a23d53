"""Every example in the README and in docs/ runs, and prints what the page says.

A `python` block is a file; a `text` block after it is what it prints. `python program` is a
program for the runtime, with the tools of `docs/programs.md`; `python notebook` is a cell. `file=NAME` also writes the block
for the `console` blocks of its page, whose `$` lines are commands. `text rejected` is a problem.
"""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace

import pytest
from inline_snapshot import snapshot

import toolfold
from design.site import BLOCK, block_for_site, on_page_content
from examples.demo.tools import get_budget, list_people
from examples.demo.tools import get_expenses as get_demo_expenses

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    page: str
    line: int
    kind: str
    text: str
    expected: str | None = None
    expected_kind: str = ""


def examples_of(page: Path) -> list[Example]:
    whole = page.read_text(encoding="utf-8")
    found = [
        Example(page.name, whole.count("\n", 0, match.start()) + 1, match[1].strip(), match[2])
        for match in FENCE.finditer(whole)
    ]
    paired = []
    for one, after in zip_longest(found, found[1:]):
        is_pair = one.kind.startswith("python") and after is not None and after.kind.startswith("text")
        paired.append(Example(one.page, one.line, one.kind, one.text, after.text, after.kind) if is_pair else one)
    return paired


EXAMPLES = [example for page in PAGES for example in examples_of(page)]


def named(example: Example) -> str:
    return f"{example.page}:{example.line}"


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.kind == "python"], ids=named)
def test_a_file_in_the_docs_prints_what_the_page_says(example: Example) -> None:
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(example.text, example.page, "exec"), {"__name__": "__main__"})

    assert printed.getvalue() == (example.expected or "")


async def test_cells_in_the_docs_print_what_the_page_says() -> None:
    printed, expected, names = io.StringIO(), "", {"__name__": "__main__"}

    with contextlib.redirect_stdout(printed):
        for example in EXAMPLES:
            if example.kind == "python notebook":
                cell = compile(example.text, example.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if (awaited := eval(cell, names)) is not None:
                    await awaited
                expected += example.expected or ""

    assert printed.getvalue() == expected == "45\n"


@pytest.mark.long
@pytest.mark.timeout(600)  # mypy reads every package that the pages import, the first time
def test_every_file_in_the_docs_passes_a_strict_type_check(tmp_path: Path) -> None:
    for example in EXAMPLES:
        if example.kind.split(" file=")[0] == "python" and not is_program(example.text):
            name = f"{example.page.removesuffix('.md')}_{example.line}.py".replace("-", "_")
            # As far down as on its page, so that an error has the line of the page.
            (tmp_path / name).write_text("\n" * example.line + example.text, encoding="utf-8")

    checked = type_check(tmp_path, ".")

    assert len(list(tmp_path.glob("*.py"))) > 50
    assert (checked.stdout, checked.stderr) == ("", "")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_example_passes_a_strict_type_check() -> None:
    paths = [str(path) for path in (ROOT / "examples").rglob("*.py") if not is_program(path.read_text("utf-8"))]

    checked = type_check(ROOT, "--explicit-package-bases", *paths)

    assert (checked.stdout, checked.stderr) == ("", "")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_type_checkers_know_keywords_and_that_a_wait_without_a_timeout_has_a_result(tmp_path: Path) -> None:
    (tmp_path / "seams.py").write_text("""\
from typing import assert_type

from toolfold import BackgroundExecution, Outcome, Paused, run_sync, tool


async def wait(execution: BackgroundExecution) -> None:
    assert_type(await execution.wait(), Paused | Outcome)
    assert_type(await execution.wait(1.5), Paused | Outcome | None)


run_sync("1", limit=None)
tool(readonly=True)
""")

    checked = type_check(tmp_path, "--hide-error-context", "seams.py")

    assert [line for line in checked.stdout.splitlines() if ": error:" in line] == [
        'seams.py:11: error: Unexpected keyword argument "limit" for "run_sync"; did you mean "limits"?  [call-arg]',
        'seams.py:12: error: Unexpected keyword argument "readonly" for overloaded function "tool"; did you mean '
        '"read_only"?  [call-overload]',
    ]


def type_check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    options = ["--strict", "--no-error-summary", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache/strict'}"]
    command = [sys.executable, "-m", "mypy", *options, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def is_program(text: str) -> bool:
    """Whether it is for a runtime: only there may a file await at its top."""
    try:
        compile(text, "page", "exec")
    except SyntaxError:
        return True
    return False


@toolfold.tool(domain="hr")
async def get_users(team: str) -> list[str]:
    """Ids of the people in one team."""
    return {"sales": ["ann", "bob"]}[team]


@toolfold.tool(domain="finance")
async def get_expenses(user_id: str, quarter: int = 1) -> list[dict[str, object]]:
    """Expenses of one user in one quarter."""
    if user_id == "nobody":
        raise ValueError("no user 'nobody'")
    return [{"user": user_id, "amount": 10 * quarter}]


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.kind == "python program"], ids=named)
async def test_a_program_in_the_docs_prints_what_the_page_says(example: Example) -> None:
    async with toolfold.Runtime(tools=[get_users, get_expenses]) as runtime:
        outcome = await runtime.run(example.text)

    if example.expected_kind == "text rejected":
        assert (outcome.status, f"{outcome.problem}\n") == ("rejected", example.expected)
    else:
        assert (outcome.problem, outcome.stdout) == (None, example.expected)


@pytest.mark.parametrize("page", [page for page in PAGES if "```console" in page.read_text()], ids=lambda one: one.name)
@pytest.mark.long
def test_commands_in_the_docs_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    examples = examples_of(page)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for example in examples:
        if name := re.search(r"file=(\S+)", example.kind):
            (tmp_path / name[1]).write_text(example.text, encoding="utf-8")

    said = {}
    for block in (example.text for example in examples if example.kind == "console"):
        for command, output in re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", block, re.MULTILINE):
            done = shell(command, tmp_path)
            said[command] = (output, done)

    assert {command: done for command, (_, done) in said.items()} == {
        command: output for command, (output, _) in said.items()
    }


def shell(command: str, folder: Path) -> str:
    function = f'toolfold() {{ "{sys.executable}" -m toolfold "$@"; }}; python() {{ "{sys.executable}" "$@"; }}\n'
    source = str(Path(toolfold.__file__).parents[1])
    done = subprocess.run(
        ["sh", "-c", function + command],
        cwd=folder,
        # As in an activated environment: a page may start servers of its own with `python3`.
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": source,
            "COLUMNS": "80",
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],  # of the tests, not of whoever runs them
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("engine", ["auto", "monty"])
async def test_the_demo_folds_more_than_50_calls_into_one_program_on_every_engine(engine: str) -> None:
    text = (ROOT / "examples/demo/program.py").read_text(encoding="utf-8")

    async with toolfold.Runtime(tools=[list_people, get_demo_expenses, get_budget], engine=engine) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.problem, len(outcome.calls)) == (None, 60)
    assert outcome.stdout == snapshot("""\
sales        spent  21240.72 of  20000  OVER
engineering  spent  19603.59 of  20500  ok
support      spent  19299.32 of  17500  OVER
research     spent  20384.77 of  22500  ok
""")
    assert outcome.context_saved.bytes > 500_000


def test_the_limits_in_the_docs_are_the_defaults() -> None:
    table = "\n".join(f"| `{field.name}` | {field.default:,} |" for field in fields(toolfold.Limits))

    assert table in (ROOT / "docs/isolation.md").read_text(encoding="utf-8")


def test_the_site_shows_every_block_as_code_and_names_its_file() -> None:
    kinds = {example.kind for page in PAGES[2:] for example in examples_of(page)}

    shown = {kind: BLOCK.sub(block_for_site, f"```{kind}\nx\n```\n").partition("\n")[0] for kind in kinds}

    assert shown["python program file=worth.py"] == '```python title="worth.py"'
    assert [line for line in shown.values() if not re.fullmatch(r'```[a-z]*( title="[a-z.]+")?', line)] == []


@pytest.mark.parametrize(
    ("markdown", "html", "warnings"),
    [
        ("```py\nx\n```\n", '<div class="highlight"><pre>x</pre></div>', []),
        ("```py\nx\n```\n", "<p><code>py x</code></p>", ["docs/a.md: raw fence: 0 of 1 blocks are rendered"]),
        ("```py\nx\n", "<p>```py\nx</p>", ["docs/a.md: raw fence: ```py"]),
        ("````py\nx\n```\n", "<p><code>py x</code></p>", ["docs/a.md: raw fence: ````py"]),
        ("> ~~~py k=1\n> x\n> ~~~\n", "<p>x</p>", ["docs/a.md: raw fence: > ~~~py k=1"]),
    ],
)
def test_the_site_is_not_built_with_a_raw_fence(
    markdown: str, html: str, warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    page = SimpleNamespace(markdown=markdown, file=SimpleNamespace(src_path="a.md"))

    assert (on_page_content(html, page), caplog.messages) == (html, warnings)


def test_every_link_in_the_docs_leads_to_a_file_of_the_repository() -> None:
    link = re.compile(r"\]\(([^)#]+)[^)]*\)")
    targets = [(page, target) for page in PAGES for target in link.findall(page.read_text(encoding="utf-8"))]

    dead = [(page.name, to) for page, to in targets if "://" not in to and not (page.parent / to).exists()]

    assert dead == []


def test_the_short_pages_are_short() -> None:
    lines = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in ("README.md", "AGENTS.md")}

    assert lines["README.md"] < 150
    assert lines["AGENTS.md"] < 100
