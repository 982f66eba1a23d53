"""Texts as models send them: a program in a wrapper, or with characters that Python does not take."""

import pytest

from toolfold import Runtime
from toolfold.models import Problem, Program
from toolfold.program import check

BODY = "total = 0\nfor n in range(3):\n    total += n\nprint(total)"
FENCED = f"```python\n{BODY}\n```"

WRAPPED = {
    "a fence": (FENCED, "left out the Markdown fence"),
    "a fence without a language": (f"```\n{BODY}\n```", "left out the Markdown fence"),
    "a fence of tildes": (f"~~~py\n{BODY}\n~~~\n", "left out the Markdown fence"),
    "a fence on one line": ("```python print(3)```", "left out the Markdown fence"),
    "a fence in a list": (
        "1. Run this:\n\n   ```python\n" + BODY.replace("\n", "\n   ").join(["   ", "\n"]) + "   ```\n",
        "left out the Markdown fence and the text around it",
    ),
    "prose before a fence": (f"Here's the program:\n\n{FENCED}", "left out the Markdown fence and the text around it"),
    "prose after a fence": (f"{FENCED}\n\nThis prints 3.", "left out the Markdown fence and the text around it"),
    "prose around a fence": (
        f"I'll add them up, for each number:\n{FENCED}\nNote: the sum is 3.\nLet me know!",
        "left out the Markdown fence and the text around it",
    ),
    "execute tags": (f"<execute>\n{BODY}\n</execute>", "left out the <execute> tags"),
    "execute tags on one line": ("<execute>print(3)</execute>", "left out the <execute> tags"),
    "python tags with prose": (
        f"Thought: add them.\n<python>\n{BODY}\n</python>\nDone.",
        "left out the <python> tags and the text around it",
    ),
    "prompts": (">>> total = 3\n>>> print(total)", "left out the prompts"),
    "prompts and output": (
        ">>> total = 0\n>>> for n in range(3):\n...     total += n\n...\n>>> total\n3\n>>> print(total)\n3\n",
        "left out the prompts and the output between them",
    ),
    "prompts of IPython": ("In [1]: x = (\n   ...:     3)\n\nIn [2]: print(x)", "left out the prompts"),
}

NOTEBOOK = {
    "matplotlib inline": (f"%matplotlib inline\n{BODY}", "left out '%matplotlib inline'"),
    "pip with a bang": (f"!pip install numpy\n{BODY}", "left out '!pip install numpy'"),
    "pip as a magic": (f"%pip install -q numpy pandas\n{BODY}", "left out '%pip install -q numpy pandas'"),
    "pip as a plain line": (f"pip install numpy\n{BODY}", "left out 'pip install numpy'"),
    "pip of a module": (f"!python -m pip install numpy==2.2\n{BODY}", "left out '!python -m pip install numpy==2.2'"),
    "in a block": (f"if True:\n    !pip install numpy\n{BODY}", "left out '!pip install numpy'"),
    "two of them": (
        f"%load_ext autoreload\n%autoreload 2\n{BODY}",
        "left out '%load_ext autoreload', '%autoreload 2'",
    ),
    "a timed statement": (BODY.replace("print", "%time print"), "left out '%time print(total)'"),
    "beside a string with such a line": (
        f"doc = '''\n%magic\n!ls\n'''\n%matplotlib inline\n{BODY}",
        "left out '%matplotlib inline'",
    ),
    "beside a modulo over two lines": (
        f"%matplotlib inline\nx = (7\n     % 4)\n{BODY}",
        "left out '%matplotlib inline'",
    ),
}

QUOTES = "read typographic quotes as plain ones"
SIGNS = "read characters that only look like spaces or signs of Python as those"
ENTITIES = "read HTML entities as the characters they stand for"
LINE_ENDS = "read '\\n' between statements as line ends"
CHARACTERS = {
    "double quotes": ("print(“3”)", (QUOTES,)),
    "single quotes": ("print(‘3’)", (QUOTES,)),
    "low quotes": ("print(„3“)", (QUOTES,)),
    "one curved, one plain": ('print(“3")', (QUOTES,)),
    "one plain, one curved": ('print("3”)', (QUOTES,)),
    "an f-string": ("n = 3\nprint(f“{n}”)", (QUOTES,)),
    "an apostrophe inside": ("d = {“it's”: 3}\nprint(d[“it's”])", (QUOTES,)),
    "a no-break space": ("if True:\n\u00a0\u00a0\u00a0\u00a0print(3)", (SIGNS,)),
    "a zero-width space": ("x\u200b = 3\nprint(x)", (SIGNS,)),
    "a byte-order mark": ("\ufeffprint(3)", (SIGNS,)),
    "a real minus": ("print(5 − 2)", (SIGNS,)),
    "comparison signs": ("print(3 if 1 ≤ 2 else 4)", (SIGNS,)),
    "full-width brackets": ("print（3）", (SIGNS,)),
    "entities": ("if 1 &lt; 2 and 3 &gt; 2:\n    print(3)", (ENTITIES,)),
    "entities for quotes": ("d = {&quot;a&quot;: 3}\nif d:\n    print(d[&#39;a&#39;])", (ENTITIES,)),
    "line ends written out": ("x = 3\\nprint(x)", (LINE_ENDS,)),
    "line ends and a comment": ("x = 3\\nif x:  # don't\\n\\tprint(x)", (LINE_ENDS,)),
    "the inside of a JSON string": ('x = \\"3\\"\\nprint(x)', (LINE_ENDS,)),
    "a fence in tags": (f"<code>\n{FENCED}\n</code>", ("left out the <code> tags", "left out the Markdown fence")),
    "a fence and quotes": ("```python\nprint(“3”)\n```", ("left out the Markdown fence", QUOTES)),
}

JSON = {
    "code": '{"code": "print(3)"}',
    "several lines": '{\n  "code": "x = 3\\nprint(x)"\n}\n',
    "with its language": '{"language": "python", "code": "print(3)"}',
    "with a description": '{"description": "prints", "code": "print(3)"}',
    "with a fence inside": '{"code": "```python\\nprint(3)\\n```"}',
}


async def _seen(texts: dict[str, str]) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Status, output and hints of each program."""
    async with Runtime() as runtime:
        outcomes = {name: await runtime.run(text) for name, text in texts.items()}
    return {name: (outcome.status, outcome.stdout, outcome.hints) for name, outcome in outcomes.items()}


@pytest.mark.parametrize("programs", [WRAPPED, NOTEBOOK], ids=["wrapped", "notebook"])
async def test_a_program_in_a_wrapper_runs_and_a_hint_says_what_was_left_out(
    programs: dict[str, tuple[str, str]],
) -> None:
    seen = await _seen({name: text for name, (text, _) in programs.items()})

    assert seen == {name: ("finished", "3\n", (note,)) for name, (_, note) in programs.items()}


async def test_odd_characters_outside_of_strings_are_read_as_python_s() -> None:
    seen = await _seen({name: text for name, (text, _) in CHARACTERS.items()})

    assert seen == {name: ("finished", "3\n", notes) for name, (_, notes) in CHARACTERS.items()}


async def test_a_json_object_with_code_runs_that_code() -> None:
    seen = await _seen(JSON)

    assert {name: (status, stdout, hints[0]) for name, (status, stdout, hints) in seen.items()} == dict.fromkeys(
        JSON, ("finished", "3\n", "took the program from 'code' of a JSON object")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s = '“a” – b\u00a0&lt;'\nx = “3”", "s = '“a” – b\u00a0&lt;'\nx = \"3\""),
        ('t = """“a”\u200b\n```\n"""\nx = “3”', 't = """“a”\u200b\n```\n"""\nx = "3"'),
        ("x = “3”  # “a” – b", 'x = "3"  # “a” – b'),
    ],
)
def test_string_literals_and_comments_stay_as_they_are(text: str, expected: str) -> None:
    assert check(text) == Program(text=expected, sent=text, notes=(QUOTES,))


@pytest.mark.parametrize(
    "text",
    [
        '{"code": 5}',
        '{"code": "E42", "severity": "high"}',
        "d = {'a': 1}\n{'code': 'print(1)', **d}",
        "'''\n```python\nprint(1)\n```\n'''",
        '"""<execute>x</execute>"""',
        "x = 5\nx % 3",
        "print('a\\nb')",
        "print('“”')",
        "'''\n%matplotlib inline\n'''",
    ],
)
def test_a_text_that_is_a_program_is_never_touched(text: str) -> None:
    assert check(text) == Program(text=text)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("```python\nprint(1)\n", "the Markdown fence has no end; send the whole program, without a fence", 1),
        (
            "First:\n```python\nx = 1\n```\nor:\n```python\nx = 2\nprint(x)\n```\n",
            "several fenced blocks; send one program, in one fence or in none",
            4,
        ),
        ("```bash\nls\n```", "the fenced block is marked 'bash'; send a Python program", 1),
        (
            "x = await price(ticker='A')\n```python\nprint(x)\n```",
            "there is code outside the Markdown fence; put the whole program inside",
            1,
        ),
        (
            "```python\nx = 1\n```\nThen:\nprint(x)",
            "there is code outside the Markdown fence; put the whole program inside",
            5,
        ),
        ("<execute>\nprint(1)", "<execute> has no partner; send the whole program without tags", 1),
        (
            "<execute>print(1)</execute>\n<execute>print(2)</execute>",
            "several <execute> tags; send one program, in one pair of tags or in none",
            1,
        ),
        ("%%bash\nls", "'%%bash' makes its cell something else than Python; send a Python program", 1),
        ("x = 1\n!ls -l", "'!ls -l' is a shell command, and no process can be started here; use Python instead", 2),
        ("%run other.py", "'%run' is a command of notebooks, not Python; leave it out", 1),
        (
            ">>> x = 1\nprint(x)\n>>> x",
            "a statement without a prompt among others with one; send the program without prompts",
            2,
        ),
    ],
)
def test_a_text_is_refused_where_half_a_program_could_run(text: str, message: str, line: int) -> None:
    problem = check(text)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message, problem.line) == ("syntax", message, line)


def test_a_mistake_inside_a_fence_has_the_line_of_the_text_as_it_was_sent() -> None:
    problem = check("Here it is:\n\n```python\nx = 1\nprint((x)\n```\n")

    assert problem == Problem(
        kind="syntax", message="'(' was never closed", line=5, column=6, source="print((x)\n     ^"
    )


async def test_a_traceback_has_the_lines_of_the_text_as_it_was_sent() -> None:
    async with Runtime() as runtime:
        outcome = await runtime.run("Run:\n```python\nx = 1\nprint(x / 0)\n```")

    assert outcome.stderr == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 4, in __main__\n'
        "    print(x / 0)\n"
        "ZeroDivisionError: division by zero\n"
    )


def test_a_package_that_is_missing_is_told_at_the_line_that_wants_it() -> None:
    problem = check("x = 1\n!pip install left_pad\nprint(x)", installed={"numpy"})

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message, problem.line) == (
        "import",
        "'left_pad' (package 'left-pad') is not installed here; use the standard library; installed are numpy",
        2,
    )


def test_a_package_whose_module_has_another_name_is_known_by_that() -> None:
    program = check("!pip install PyJWT\nprint(1)", installed={"jwt"})

    assert isinstance(program, Program)
    assert program.text == "pass\nprint(1)"
