"""`design/measures.py` counts what it says it counts, on a tree whose figures are known."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "design" / "measures.py"
SAME = "".join(f"    total = total * {number} + len(text)\n" for number in range(6))
WIDE = "class Wide:\n    def __init__(self, {names}) -> None:\n{body}\n"
LONG = "# why\n" * 60


def measure(root: Path, files: dict[str, str]) -> tuple[int, list[str], list[str]]:
    """The exit status of `--check` over such a tree, the advice, and the lines below the summary."""
    quiet = {f"toolfold{path}/__init__.py": '"""A package."""\n# why\n' for path in ("", "/protocol", "/engines")}
    quiet |= dict.fromkeys(("toolfold/engines/process/__init__.py", "toolfold_guest/__init__.py"), "# why\n")
    for path, text in (quiet | files).items():
        place = root / "src" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    command = [sys.executable, str(SCRIPT), "--check", "--root", str(root)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.stderr == ""
    head, _, below = process.stdout.partition(" modules, ")
    advice = [line for line in head.splitlines() if line.startswith("advice: ")]
    return process.returncode, advice, below.splitlines()[1:]


def wide(count: int) -> str:
    names = [f"name_{number}" for number in range(count)]
    return WIDE.format(names=", ".join(names), body="\n".join(f"        self.{name} = {name}" for name in names))


def modules(count: int, text: str, folder: str = "toolfold") -> dict[str, str]:
    return {f"{folder}/m{number:02}.py": text.replace("NUMBER", str(number)) for number in range(count)}


def listing(count: int, folder: str = "toolfold") -> str:
    return ", ".join(f"{folder}.m{number:02}" for number in range(count))


@pytest.mark.parametrize(
    ("files", "violations"),
    [
        ({}, []),
        ({"toolfold/a.py": "# why\n" * 601}, ["toolfold.a: 601 lines, over 600"]),
        (
            {"toolfold/a.py": "def f(x):\n" + "".join(f"    if x: x += {n}\n" for n in range(15))},
            ["toolfold.a: complexity 16, over 15"],
        ),
        (
            {"toolfold/protocol/codec.py": '"""Words do not count."""\n' + "".join(f"x = {n}\n" for n in range(31))},
            ["toolfold.protocol: 0.032 comment lines per line of code, under 0.05"],
        ),
        (
            {"toolfold/a.py": "import toolfold.b\nx = 1\n", "toolfold/b.py": "def f():\n    import toolfold.a\n"},
            ["import cycle: toolfold.a, toolfold.b"],
        ),
        (
            {"toolfold/a.py": f"def f(text, total):\n{SAME}", "toolfold/b.py": f"def g(total, text):\n{SAME}"},
            ["duplicate: toolfold.a ~ toolfold.b: 'total = total * 0 + len(text)'"],
        ),
        (modules(20, "x = NUMBER\n"), []),
        (
            modules(10, "x = NUMBER\n") | modules(11, "x = NUMBER\n", "toolfold/engines"),
            [f"21 small modules, over 20: {listing(11, 'toolfold.engines')}, {listing(10)}"],
        ),
        (modules(25, "import os\n"), [f"25 modules in the widest folder, over 20: {listing(25)}"]),
        (
            modules(21, f"x = NUMBER\n{LONG}"),
            [f"21 modules in the widest folder, over 20: {listing(21)}"],
        ),
        (modules(11, f"class C{{}}: pass\n{LONG}".replace("{}", "NUMBER")), []),
        (
            {f"toolfold/m{n}.py": "".join(f"class C{i}: x = {n}\n" for i in range(11)) for n in range(2)},
            [f"11 repeated class names, over 10: {', '.join(sorted(f'C{i}' for i in range(11)))}"],
        ),
    ],
)
def test_what_is_over_a_limit_is_named_and_fails_the_check(
    tmp_path: Path, files: dict[str, str], violations: list[str]
) -> None:
    assert measure(tmp_path, files) == (int(bool(violations)), [], violations)


def test_modules_with_one_importer_in_their_own_package_are_limited(tmp_path: Path) -> None:
    imports = {
        f"toolfold/p{part}/user.py": "".join(f"from toolfold.p{part} import m{n}\n" for n in range(14)) + "x = 1\n"
        for part in range(3)
    }
    packages = {f"toolfold/p{part}/__init__.py": "" for part in range(3)}
    members = {f"toolfold/p{part}/m{n}.py": f"x = {n}\n{LONG}" for part in range(3) for n in range(14)}

    status, advice, violations = measure(tmp_path, imports | packages | members)

    assert (status, advice, [line.partition(":")[0] for line in violations]) == (
        1,
        [],
        ["42 single-importer modules, over 40"],
    )


def test_large_classes_are_advice_and_fail_nothing(tmp_path: Path) -> None:
    fields = "".join(f"    field_{number}: int = 0\n" for number in range(16))
    head = "from dataclasses import dataclass\n"
    files = {
        "toolfold/a.py": f"{head}@dataclass(slots=True)\nclass State:\n{fields}",
        "toolfold/b.py": f"{head}@dataclass(frozen=True, slots=True)\nclass Value:\n{fields.replace('field', 'part')}",
        "toolfold/c.py": wide(9),
    }

    assert measure(tmp_path, files) == (
        0,
        ["advice: toolfold.a.State has 16 attributes", "advice: toolfold.c.Wide has 9 constructor arguments"],
        [],
    )
