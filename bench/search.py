"""`python -m bench.search`: how well and how fast tools are found, on real descriptions and questions.

The data is the Berkeley function calling benchmark as `bfcl-eval` ships it. Every function of all its
categories is in one index, one per name, as a catalog has them; recall@5 is the share of the functions
that answer a question which are among the first five. 545 names have several definitions, and those of
the categories without an answer come first. A question counts where its answers are defined as it was
written for, since another definition may do something else; the figures where each name has its first
definition, whatever the question, stand beside them.

The synonyms and most constants of the search were set with these questions at hand, the later ones with
one half of them alone: figures of both halves are printed, and other questions may fare worse.

Beside it stand sixty questions over the operations of GitHub's API, from its own OpenAPI document.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench import github_questions, record
from toolfold.models import ToolSpec
from toolfold.tools.search import Index
from toolfold.tools.tool import python_name

CATEGORIES = (
    "simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
)  # fmt: skip
FIRST = ", first definitions"
MEANT = ", with an embedder"
GITHUB = "GitHub's API, 60 questions"
HALVES = (", half that was tuned with", ", half that was not")
RECALL_TARGETS = {"all": 0.88, "live_simple": 0.75}
NOTHING_TARGET = 0.90
FALL_TARGET = 0.01
"""Of recall, for the floor under which nothing is found."""
UNANSWERABLE = Path(__file__).with_name("unanswerable.txt")
SPEED_TARGETS = {2_000: 0.002, 10_000: 0.010}
CACHE = Path(__file__).parents[1] / "build" / "bfcl"
FOLDER = "bfcl_eval/data/"
Result = TypeVar("Result")


@dataclass(frozen=True)
class Question:
    category: str
    text: str
    answers: frozenset[str]
    specs: tuple[ToolSpec, ...]
    """The answers, as the question's own task defines them."""


@dataclass(frozen=True)
class Catalog:
    """One definition of each name, and the questions whose answers are among them."""

    index: Index
    questions: list[Question]


def main() -> int:
    """Exit status 0 if every target is reached."""
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=__doc__)
    parser.add_argument("--wheel", type=Path, help="a wheel of bfcl-eval; fetched with pip unless given")
    parser.add_argument(
        "--embedder", action="store_true", help="also by meaning, with all-MiniLM-L6-v2: about ten minutes"
    )
    options = parser.parse_args()
    with zipfile.ZipFile(options.wheel or fetch()) as wheel:
        specs, questions = read(wheel)
    index = Index(specs)
    recalls = show_recall(catalogs(index, questions), len(index))
    without = mean_recall(catalogs(Index(specs, with_floor=False), questions))
    fallen = verdict(without - recalls["all"] <= FALL_TARGET, f"the floor costs at most {FALL_TARGET}")
    print(f"  {'all, without a floor':<40} {without:.3f}  {fallen}")
    recalls |= show_first_definitions(index, questions)
    nothing = show_nothing(index)
    meant = show_meaning(specs, questions) if options.embedder else {}
    speeds = {count: show_speed(specs, questions, count, target) for count, target in SPEED_TARGETS.items()}
    limits = dict(RECALL_TARGETS)
    operations = show_github()
    if operations is not None:
        recalls[GITHUB], limits[GITHUB] = operations, github_questions.RECALL
    targets = [
        record.target(name, recalls[name], limit, "", is_reached=recalls[name] >= limit, sense="at least")
        for name, limit in limits.items()
    ]
    fall = without - recalls["all"]
    targets.append(record.target("fall", fall, FALL_TARGET, "", is_reached=fall <= FALL_TARGET))
    is_reached = nothing >= NOTHING_TARGET
    targets.append(record.target("nothing", nothing, NOTHING_TARGET, "", is_reached=is_reached, sense="at least"))
    targets += [
        record.target(f"{count}", speeds[count] * 1000, limit * 1000, "ms", is_reached=speeds[count] < limit)
        for count, limit in SPEED_TARGETS.items()
    ]
    figures = {**recalls, "fall": fall, "nothing": nothing, **meant}
    notes = [f"{len(index):,} tools, {len(questions):,} questions of BFCL"]
    if meant:
        notes.append("with an embedder: all-MiniLM-L6-v2, `make bench NAME=search ARGS=--embedder`")
    write(figures, speeds, targets, notes)
    return 0 if all(target["is_reached"] for target in targets) else 1


def write(recalls: dict[str, float], speeds: dict[int, float], targets: list[dict], notes: list[str]) -> None:
    names = {name: f"recall@5, {name}" for name in recalls}
    nothing = "nothing found where no tool answers"
    names |= {"fall": "recall@5 lost by the floor", "nothing": nothing, f"nothing{MEANT}": f"{nothing}{MEANT}"}
    cases = {name: record.case(names[name], "", {"toolfold": recall}) for name, recall in recalls.items()}
    for count, p50 in speeds.items():
        cases[f"{count}"] = record.case(f"one search over {count:,} tools, p50", "ms", {"toolfold": p50 * 1000})
    record.write(
        record.FOLDER / "search.json", title="Search over tools", command="make bench NAME=search", cases=cases,
        targets=targets, notes=notes,
    )  # fmt: skip


def fetch() -> Path:
    """The wheel, fetched once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not list(CACHE.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), "bfcl-eval"]
        subprocess.run(command, check=True)
    return max(CACHE.glob("*.whl"))


def read(wheel: zipfile.ZipFile) -> tuple[list[ToolSpec], list[Question]]:
    """All functions, the first of each name, and the questions of the categories."""
    functions: dict[str, ToolSpec] = {}
    questions = []
    for path in sorted(wheel.namelist()):
        category = path.removeprefix(f"{FOLDER}BFCL_v4_").removesuffix(".json")
        is_question_file = path == f"{FOLDER}BFCL_v4_{category}.json" and category != "format_sensitivity"
        if not is_question_file and not path.startswith(f"{FOLDER}multi_turn_func_doc/"):
            continue
        has_answers = is_question_file and category in CATEGORIES
        answers = (
            {row["id"]: row for row in rows(wheel, f"{FOLDER}possible_answer/{Path(path).name}")} if has_answers else {}
        )
        for row in rows(wheel, path):
            for function in row.get("function", [row] if "parameters" in row else []):
                functions.setdefault(function["name"], spec_of(function))
            if has_answers:
                questions.append(question_of(category, row, answers[row["id"]]))
    return list(functions.values()), questions


def rows(wheel: zipfile.ZipFile, path: str) -> Iterator[dict]:
    for line in wheel.read(path).decode().splitlines():
        if line.strip():
            yield json.loads(line)


def spec_of(function: dict) -> ToolSpec:
    name = function["name"]
    return ToolSpec(
        name=name,
        python_name=python_name(name),
        description=function["description"],
        input_schema=function["parameters"],
    )


def question_of(category: str, row: dict, answer: dict) -> Question:
    text = " ".join(message["content"] for turn in row["question"] for message in turn if message["role"] == "user")
    answers = frozenset(name for call in answer["ground_truth"] for name in call)
    specs = tuple(spec_of(function) for function in row["function"] if function["name"] in answers)
    return Question(category, text, answers, specs)


def catalogs(index: Index, questions: list[Question]) -> list[Catalog]:
    """As few as there can be, each with the tools of the index, of which some are defined otherwise."""
    groups: list[tuple[dict[str, ToolSpec], list[Question]]] = []
    for question in questions:
        fitting = (group for group in groups if all(group[0].get(spec.name, spec) == spec for spec in question.specs))
        if (group := next(fitting, None)) is None:
            groups.append(group := ({}, []))
        group[0].update((spec.name, spec) for spec in question.specs)
        group[1].append(question)
    return [
        Catalog(index.updated([defined.get(spec.name, spec) for spec in index.specs]), asked)
        for defined, asked in groups
    ]


def show_recall(asked: list[Catalog], tools: int) -> dict[str, float]:
    shares: dict[str, list[float]] = {}
    for catalog in asked:
        for question in catalog.questions:
            share = recall_of(catalog.index, question)
            for key in ("all", f"all{HALVES[is_held_out(question)]}", question.category):
                shares.setdefault(key, []).append(share)
    print(f"recall@5, {tools} tools, {len(shares['all'])} questions")
    names = (*CATEGORIES, "all", *(f"all{half}" for half in HALVES))
    recalls = {name: statistics.mean(shares[name]) for name in names}
    for name, recall in recalls.items():
        target = RECALL_TARGETS.get(name)
        reached = "" if target is None else verdict(recall >= target, f"at least {target:.2f}")
        print(f"  {name:<40} {recall:.3f}  {reached}".rstrip())
    return recalls


def is_held_out(question: Question) -> bool:
    """Of the half with which nothing was tuned; questions with the same answer are in one half."""
    return zlib.crc32(min(question.answers).encode()) % 2 == 1


def show_first_definitions(index: Index, questions: list[Question]) -> dict[str, float]:
    recalls = {}
    for category in RECALL_TARGETS:
        asked = [question for question in questions if category in ("all", question.category)]
        recall = recalls[f"{category}{FIRST}"] = mean_recall([Catalog(index, asked)])
        print(f"  {category + FIRST:<40} {recall:.3f}")
    return recalls


def show_meaning(specs: list[ToolSpec], questions: list[Question]) -> dict[str, float]:
    """The same with an embedder beside the words; it is asked for each text once, in whatever index."""
    # Imported here: numpy is no need of the others.
    from bench import minilm  # noqa: PLC0415

    index = Index(specs, embedder=minilm.MiniLM(minilm.fetch()))
    print("with all-MiniLM-L6-v2 beside the words:")
    recalls = show_recall(catalogs(index, questions), len(index)) | show_first_definitions(index, questions)
    shown = (
        *RECALL_TARGETS,
        *(f"all{half}" for half in HALVES),
        *(f"{category}{FIRST}" for category in RECALL_TARGETS),
    )
    figures = {f"{name}{MEANT}": recalls[name] for name in shown}
    return {**figures, f"nothing{MEANT}": show_nothing(index)}


def mean_recall(asked: list[Catalog]) -> float:
    return statistics.mean(recall_of(catalog.index, question) for catalog in asked for question in catalog.questions)


def recall_of(index: Index, question: Question) -> float:
    found = {hit.spec.name for hit in index.search(question.text, limit=5)}
    return len(question.answers & found) / len(question.answers)


def show_nothing(index: Index) -> float:
    """The share of questions that no tool answers for which none is found."""
    asked = UNANSWERABLE.read_text(encoding="utf-8").splitlines()
    share = statistics.mean(not index.search(text) for text in asked)
    reached = verdict(share >= NOTHING_TARGET, f"at least {NOTHING_TARGET:.2f}")
    print(f"nothing found for {len(asked)} questions that no tool answers: {share:.3f}  {reached}")
    return share


def show_github() -> float | None:
    """The share of the questions over GitHub's operations whose answer is found; `None` without the document."""
    document = github_questions.FOLDER / github_questions.DOCUMENT
    if not document.is_file():
        print("NOT RUN: the questions over GitHub's API: no document of it; `make bench NAME=search` fetches that")
        return None
    specs = github_questions.operations(document)
    recall, least = github_questions.recall(specs), github_questions.RECALL
    asked = f"recall@5, {len(specs):,} operations of GitHub's API, {len(github_questions.QUESTIONS)} questions"
    print(f"{asked}: {recall:.3f}  {verdict(recall >= least, f'at least {least:.2f}')}")
    return recall


def show_speed(specs: list[ToolSpec], questions: list[Question], count: int, target: float) -> float:
    tools = [
        replace(specs[at % len(specs)], name=f"{specs[at % len(specs)].name}_{at // len(specs)}") for at in range(count)
    ]
    built, index = timed(lambda: Index(tools))
    updated, _ = timed(lambda: index.updated(tools[1:]))
    times = [timed(partial(index.search, question.text))[0] for question in questions[::5]]
    p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(
        f"{count:,} tools: search p50 {p50 * 1000:.2f} ms, p95 {p95 * 1000:.2f} ms; "
        f"index {built * 1000:.0f} ms, one tool less {updated * 1000:.0f} ms"
        f"  {verdict(p50 < target, f'p50 under {target * 1000:.0f} ms')}"
    )
    return p50


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def verdict(is_good: bool, target: str) -> str:
    return f"{'ok' if is_good else 'MISSED'}: {target}"


if __name__ == "__main__":
    sys.exit(main())
