"""What programs save against direct tool calling, without a model: `python -m bench.savings`.

Gold call sequences of a public benchmark (BFCL multi-turn) and of our own examples are done in several
ways: direct calls one by one; direct calls in parallel, each request with all calls that need no reply
which is not there yet; all calls of a turn in one request, the bound of what a model could do; and
programs on the process engine. Every call is really made, and must give the same results and leave the
same state in each way. Counted are requests and tokens; a model's speed and prices are assumed.
"""

import argparse
import asyncio
import sys
from dataclasses import asdict, fields
from pathlib import Path

from rich.console import Console

import toolfold
from bench import record
from bench.savings import bfcl, interfaces, show, targets
from bench.savings.counting import Assumed, Counted, Openings, counted
from bench.savings.examples import examples
from bench.savings.replay import WAYS, Differs, Unfit, replay
from bench.savings.task import Task
from bench.savings.tokens import Count, tokenizer

FEWEST_TASKS = 200


def main() -> int:
    """Exit status 0 if at least 200 tasks were replayed and no way differed."""
    options = _options()
    assumed = Assumed(**{one.name: getattr(options, one.name) for one in fields(Assumed)})
    bfcl.fetch()
    count, counting = tokenizer(bfcl.HOME)
    return asyncio.run(_main(count, counting, assumed, options))


async def _main(count: Count, counting: str, assumed: Assumed, options: argparse.Namespace) -> int:
    console = Console(width=max(Console().width, 150), highlight=False)
    tasks = [*bfcl.tasks()]
    if options.tasks:
        tasks = tasks[:: max(1, len(tasks) // options.tasks)][: options.tasks]
    public, left_out, wrong, calls = await _replayed(tasks, count, assumed)
    own, _, own_wrong, _ = await _replayed(await examples(), count, assumed)
    wrong += own_wrong
    groups = {category: [one for one in public if one[0].group == category] for category in bfcl.CATEGORIES}

    for category, results in groups.items():
        show.show_group(console, f"{category}: {len(results)} tasks", results, assumed)
    show.show_losses(console, public, assumed)
    show.show_turns(console, public, assumed)
    show.show_examples(console, own, assumed)
    by_interface = await interfaces.by_interface([task for task, _ in public], count)
    interfaces.show_interfaces(console, by_interface)
    judged = targets.judged(groups, {task.name: figures for task, figures in own}, by_interface, assumed)
    targets.show_targets(console, judged)
    every = {**groups, **{task.name: [(task, figures)] for task, figures in own}}
    notes = [
        f"{len(public)} tasks of BFCL multi-turn and {len(own)} examples; {calls:,} calls of BFCL, "
        f"each made in {len(WAYS)} ways with the same results and the same state in the end",
        *left_out,
        show.context_saved(every),
        f"tokens: {counting}",
        "assumed: " + ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in asdict(assumed).items()),
    ]
    console.print(*notes, *(f"WRONG: {text}" for text in wrong), sep="\n", soft_wrap=True)
    record.write(
        options.json, title="What programs save", command="make bench NAME=savings", notes=[*notes, *wrong],
        cases=show.cases(every, assumed), losses=show.losses(public, assumed), turns=show.turn_table(public, assumed),
        interfaces=by_interface, targets=[(name, figure, limit, is_met) for name, figure, limit, is_met in judged],
        tasks=len(public), examples=[task.name for task, _ in own], groups=list(groups),
        counts={task.name: len(task.turns[0].calls) for task, _ in own},
    )  # fmt: skip
    return 0 if len(public) + len(left_out) >= min(len(tasks), FEWEST_TASKS) and not wrong else 1


async def _replayed(
    tasks: list[Task], count: Count, assumed: Assumed
) -> tuple[list[tuple[Task, dict[str, Counted]]], list[str], list[str], int]:
    results, left_out, wrong, calls = [], [], [], 0
    openings = Openings(count)
    async with toolfold.Runtime(engine="process") as runtime:
        for task in tasks:
            try:
                replayed = await replay(task, runtime)
            except Unfit as error:
                left_out.append(f"left out: {error}")
            except Differs as error:
                wrong.append(str(error))
            else:
                calls += next(iter(replayed.values())).calls
                starts = {way: await openings.of(task, way) for way in WAYS}
                figures = {way: counted(task, replayed[way], starts[way], count, assumed) for way in WAYS}
                results.append((task, figures))
    return results, left_out, wrong, calls


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.savings", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, metavar="N", help="only so many tasks of the benchmark, spread over all")
    for one in fields(Assumed):
        flag = f"--{one.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(one.default), default=one.default, metavar="N", help="assumed")
    parser.add_argument("--json", type=Path, default=record.FOLDER / "savings.json", metavar="PATH")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
