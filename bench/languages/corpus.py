"""The programs, and what each must answer.

A program ends in comments:

    # topic: classes
    # expect stdout:         lines after `# | `; left out, it prints nothing
    # expect value: [1, 2]   a Python literal; left out, any value will do
"""

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    name: str
    topic: str
    text: str
    stdout: str = ""
    value: Any = None

    def judge(self, answer: Mapping[str, Any]) -> str:
        """Why an answer is not the right one; empty if it is."""
        if "error" in answer:
            return answer["error"]
        if answer["stdout"].rstrip("\n") != self.stdout.rstrip("\n"):
            return WRONG_OUTPUT if answer["stdout"].strip() else NO_OUTPUT
        # As JSON, because a tuple that comes back as a list is right.
        if self.value is not None and _plain(answer["value"]) != _plain(self.value):
            return f"wrong value {answer['value']!r:.60}"
        return ""


NO_OUTPUT, WRONG_OUTPUT = "what it printed did not come back", "it printed something else"


def programs() -> list[Program]:
    return [read(path) for path in sorted(FOLDER.glob("*.py"))]


def read(path: Path) -> Program:
    text, _, rest = path.read_text("utf-8").rpartition("# topic: ")
    topic, *lines = rest.splitlines()
    said = dict(_sections(lines))
    value = ast.literal_eval(said["value"]) if "value" in said else None
    return Program(name=path.stem, topic=topic, text=text, stdout=said.get("stdout", ""), value=value)


def _sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if line == "# expect stdout:":
            shown = [one[4:] + "\n" for one in lines[number + 1 :] if one.startswith("# |")]
            yield "stdout", "".join(shown)
        elif line.startswith("# expect value: "):
            yield "value", line.removeprefix("# expect value: ")


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=repr))
