"""The task sets in `evals/` are what their reference solutions say."""

from pathlib import Path

from evals import write_tasks
from toolfold.interfaces.evaluation.tasks import read_tasks

FOLDER = Path(__file__).parents[1] / "evals"


def test_each_task_file_is_what_its_solutions_do() -> None:
    expected = {name: write_tasks.file_text(name) for name in write_tasks.SETS}

    assert {name: (FOLDER / f"{name}.yaml").read_text("utf-8") for name in write_tasks.SETS} == expected


def test_the_tasks_are_in_five_kinds_and_two_halves_and_each_is_checked() -> None:
    tasks = read_tasks(sorted(FOLDER.glob("*.yaml")))

    assert (len(tasks), {task.kind for task in tasks}) == (120, set(write_tasks.KINDS))
    assert sum(task.half == "report" for task in tasks) == 60
    assert [task.id for task in tasks if not (task.checks.changes or task.checks.answer)] == []
