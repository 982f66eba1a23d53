"""`design/measures.py` counts what it says it counts, on a tree whose figures are known."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "design" / "measures.py"
SAME = "".join(f"    total = total * {number} + len(text)\n" for number in range(6))
WIDE = "class Wide:\n    def __init__(self, {names}) -> None:\n{body}\n"


def measured(root: Path, files: dict[str, str]) -> tuple[int, list[str]]:
    """The exit status of `--check` over such a tree, and the lines below the sums."""
    quiet = {f"toolfold{path}/__init__.py": '"""A package."""\n# why\n' for path in ("", "/protocol", "/engines")}
    quiet |= dict.fromkeys(("toolfold/engines/process/__init__.py", "toolfold_guest/__init__.py"), "# why\n")
    for path, text in (quiet | files).items():
        place = root / "src" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    command = [sys.executable, str(SCRIPT), "--check", "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    below = done.stdout.partition(" modules, ")[2].splitlines()
    return done.returncode, [line for line in below[1:] if line != "lines"]


def wide(count: int) -> str:
    names = [f"name_{number}" for number in range(count)]
    return WIDE.format(names=", ".join(names), body="\n".join(f"        self.{name} = {name}" for name in names))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, []),
        ({"toolfold/a.py": wide(8)}, []),
        ({"toolfold/a.py": wide(9)}, ["toolfold.a.Wide: 9 constructor arguments, over 8"]),
        (
            {"toolfold/a.py": wide(16)},
            ["toolfold.a.Wide: 16 attributes, over 15", "toolfold.a.Wide: 16 constructor arguments, over 8"],
        ),
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
            {"toolfold/a.py": "import toolfold.b\n", "toolfold/b.py": "def f():\n    import toolfold.a\n"},
            ["import cycle: toolfold.a, toolfold.b"],
        ),
        (
            {"toolfold/a.py": f"def f(text, total):\n{SAME}", "toolfold/b.py": f"def g(total, text):\n{SAME}"},
            ["duplicate: toolfold.a ~ toolfold.b: 'total = total * 0 + len(text)'"],
        ),
    ],
)
def test_what_is_over_a_limit_is_named_and_fails_the_check(
    tmp_path: Path, files: dict[str, str], told: list[str]
) -> None:
    assert measured(tmp_path, files) == (int(bool(told)), told)


def test_the_fields_of_a_dataclass_count_unless_it_is_frozen(tmp_path: Path) -> None:
    fields = "".join(f"    field_{number}: int = 0\n" for number in range(16))
    head = "from dataclasses import dataclass\n"
    files = {
        "toolfold/a.py": f"{head}@dataclass(slots=True)\nclass State:\n{fields}",
        "toolfold/b.py": f"{head}@dataclass(frozen=True, slots=True)\nclass Value:\n{fields.replace('field', 'part')}",
    }

    assert measured(tmp_path, files) == (1, ["toolfold.a.State: 16 attributes, over 15"])
