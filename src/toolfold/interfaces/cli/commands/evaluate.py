"""Evaluation command: `toolfold eval` asks a model the tasks of a file, and reports which way of calling tools pays."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

import toolfold
from toolfold.errors import ToolUnreachable, UsageError
from toolfold.interfaces.cli.command_process import Exit, complain, run_until_stopped, write_json
from toolfold.interfaces.cli.command_setup import nearest_config, open_for_command
from toolfold.interfaces.cli.shared_options import ConfigOption, JsonOption, RecordOption, ToolsOption
from toolfold.models import Json, Prices

if TYPE_CHECKING:
    from toolfold.interfaces.cli.commands.batch import Results
    from toolfold.interfaces.evaluation.loop import Evaluator
    from toolfold.interfaces.evaluation.tasks import EvalTask, Mode, TaskResult

_DEFAULT_RESULTS: Final = Path("eval.jsonl")


def eval_command(
    tasks: Annotated[
        list[Path] | None, typer.Argument(metavar="TASKS...", help="Files with tasks, YAML or JSON Lines.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model, as the endpoint calls it.")] = None,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Base URL of the endpoint. Default: the provider's own.")
    ] = "",
    api: Annotated[
        Literal["openai", "anthropic"], typer.Option(help="What the endpoint is compatible with.")
    ] = "openai",
    key_variable: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Environment variable with the API key. Default: OPENAI_API_KEY or ANTHROPIC_API_KEY."
        ),
    ] = "",
    modes: Annotated[
        str, typer.Option(metavar="MODES", help="What is offered to the model, of direct, programs and both.")
    ] = "direct,programs,both",
    tools: ToolsOption = None,
    config: ConfigOption = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often each task is run in each mode.")] = 1,
    half: Annotated[
        Literal["develop", "report"] | None,
        typer.Option(help="Only this half of the tasks, so that what is improved with one is measured with the other."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Only tasks whose id or kind begins with this. Repeatable."),
    ] = None,
    most: Annotated[
        int | None, typer.Option(min=1, help="At most so many tasks of each kind, of all tool sets.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE.jsonl", help="Where results go; runs that have one are not made again.")
    ] = _DEFAULT_RESULTS,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the report as a page.")] = None,
    price: Annotated[
        str | None,
        typer.Option(metavar="IN,CACHED,OUT", help="US dollars for a million tokens. Default: list prices, if known."),
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Of the model; `-1` leaves it to the endpoint.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Limit of one reply of the model.")] = 2048,
    in_flight: Annotated[int, typer.Option(min=1, help="How many tasks run at a time.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no further run after so many minutes; the same command continues.")
    ] = None,
    ledger: RecordOption = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A.jsonl B.jsonl", help="Compare the results of two evaluations, and run nothing."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Ask a model tasks with your tools, as direct calls and as programs, and report what succeeds and what it costs.

    You can kill the command at any time; running it again continues where it stopped.
    Exit codes: 0 every run has a result, whatever it is; 1 the endpoint failed, 2 wrong usage, 130 interrupted.
    """
    if compare is not None:
        return _compare(compare, as_json=json)
    from toolfold.config.discovery import find_config
    from toolfold.interfaces.cli.commands.batch import open_results
    from toolfold.interfaces.cli.commands.run import stdout_to_stderr
    from toolfold.interfaces.evaluation.tasks import read_tasks

    if not tasks:
        raise UsageError("no tasks; name a file with tasks, YAML or JSON Lines")
    if not model:
        raise UsageError("no model to ask; give --model, and --url for an endpoint of your own")
    chosen_modes = _modes(modes)
    read = read_tasks(tasks)
    selected = _select(read, half, only or [], most)
    if not selected:
        named = ", ".join(repr(str(path)) for path in tasks)
        raise UsageError("no task is left; check --half and --only" if read else f"{named} has no tasks; add one")
    if html is not None and not html.parent.is_dir():
        raise UsageError(f"no folder {str(html.parent)!r} for the report; make it, or name another")
    from toolfold.interfaces.evaluation.loop import Evaluator
    from toolfold.sources.model_endpoint import Endpoint, ModelClient

    endpoint = Endpoint(
        model=model, url=url, api=api, key_variable=key_variable, max_tokens=max_tokens, prices=_prices(price),
        temperature=None if temperature is not None and temperature < 0 else temperature,
    )  # fmt: skip
    loaded_config = nearest_config(config)
    nearest = config or find_config()
    sources = tools or ([str(nearest)] if nearest else [])
    settings: dict[str, Json] = {
        "model": model, "url": url, "api": api, "temperature": endpoint.temperature, "max_tokens": max_tokens,
        "version": toolfold.__version__,
    }  # fmt: skip
    with open_results(out) as results:
        store = open_for_command(ledger, loaded_config)
        label = f"eval-{out.stem}"
        evaluator = Evaluator(ModelClient(endpoint), store, tools=sources, label=label)
        keys = [
            (task, mode, number) for number in range(1, repeat + 1) for mode, task in _in_order(selected, chosen_modes)
        ]
        done = _read_results(results, settings)
        pending = [key for key in keys if (key[0].id, key[1], key[2]) not in done]
        deadline = None if minutes is None else time.monotonic() + minutes * 60

        async def work() -> int:
            try:
                await evaluator.check([task for task, _, _ in pending])
                return await _run(evaluator, pending, done, results, in_flight, deadline)
            finally:
                await store.close()

        try:
            with stdout_to_stderr():
                code = run_until_stopped(work())
        except ToolUnreachable as error:
            complain(f"{error}; what was run is in {str(out)!r}, and the same command continues", code=Exit.FAILED)
            code = Exit.FAILED
    wanted = {(task.id, mode, number) for task, mode, number in keys}
    return _report(
        [result for key, result in done.items() if key in wanted], len(keys), settings, html, code, as_json=json
    )


def _modes(text: str) -> list[Mode]:
    from toolfold.interfaces.evaluation.tasks import MODES

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in MODES:
            raise UsageError(f"--modes {text!r}: no mode {name!r}; there are {', '.join(MODES)}")
    return [mode for mode in MODES if mode in names]


def _prices(text: str | None) -> Prices | None:
    if text is None:
        return None
    try:
        fresh, cached, output = map(float, text.split(","))
        if not all(0 <= number < math.inf for number in (fresh, cached, output)):
            raise ValueError
    except ValueError:
        raise UsageError(f"--price {text!r} must be three numbers, such as 3,0.3,15") from None
    return Prices(input=fresh, cached=cached, output=output)


def _select(tasks: Sequence[EvalTask], half: str | None, only: Sequence[str], most: int | None) -> list[EvalTask]:
    selected = [
        task for task in tasks
        if (half is None or task.half == half)
        and (not only or any(task.id.startswith(text) or task.kind.startswith(text) for text in only))
    ]  # fmt: skip
    return selected if most is None else _spread(selected, most)


def _spread(tasks: Sequence[EvalTask], most: int) -> list[EvalTask]:
    """At most so many tasks of each kind, in turn from each tool set."""
    tool_sets = list(dict.fromkeys(task.tool_sources() for task in tasks))
    ids: set[str] = set()
    for place, kind in enumerate(dict.fromkeys(task.kind for task in tasks)):
        turns = [[task.id for task in tasks if (task.kind, task.tool_sources()) == (kind, own)] for own in tool_sets]
        first = place % len(turns)  # each kind begins with another
        in_turn = chain.from_iterable(zip_longest(*turns[first:], *turns[:first]))
        ids.update(islice((task_id for task_id in in_turn if task_id), most))
    return [task for task in tasks if task.id in ids]


def _in_order(tasks: Sequence[EvalTask], modes: Sequence[Mode]) -> list[tuple[Mode, EvalTask]]:
    """Tasks of one tool set and mode after each other: their requests begin alike, which endpoints cache."""
    tool_sets = dict.fromkeys(task.tool_sources() for task in tasks)
    return [(mode, task) for tools in tool_sets for mode in modes for task in tasks if task.tool_sources() == tools]


def _read_results(results: Results, settings: dict[str, Json]) -> dict[tuple[str, str, int], TaskResult]:
    """Earlier results of this file; a new file gets its first line, which says what it was run with."""
    import msgspec

    from toolfold.interfaces.evaluation.tasks import TaskResult

    done: dict[tuple[str, str, int], TaskResult] = {}
    first: dict[str, Json] | None = None
    for item in results.read_lines():
        if isinstance(item.get("settings"), dict):
            first = item["settings"]
            continue
        try:
            result = msgspec.convert(item, TaskResult)
        except msgspec.ValidationError as error:
            raise UsageError(f"{results.name} is no file of an evaluation: {error}; name another with --out") from error
        done[result.key] = result
    if done and first is None:
        raise UsageError(f"{results.name} is no file of an evaluation; name another with --out")
    # Of a start that ran nothing, such as one with a wrong URL, there is nothing to keep to.
    for name in ("model", "url", "api", "temperature") if done and first else ():
        if first is not None and first.get(name) != settings[name]:
            reason = f"has results with {name} {first.get(name)!r}, not {settings[name]!r}"
            raise UsageError(f"{results.name} {reason}; give another --out")
    if first != settings and not done:
        results.append({"settings": settings})
    return done


async def _run(
    evaluator: Evaluator, pending: Sequence[tuple[EvalTask, Mode, int]],
    done: dict[tuple[str, str, int], TaskResult], results: Results, in_flight: int, deadline: float | None,
) -> int:  # fmt: skip
    import asyncio

    import msgspec
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    waiting = list(reversed(pending))
    columns = (
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        row = bar.add_task("", total=len(pending))

        async def work() -> None:
            while waiting and (deadline is None or time.monotonic() < deadline):
                result = await evaluator.run(*waiting.pop())
                results.append(msgspec.to_builtins(result))
                done[result.key] = result
                state = "passed" if result.passed else f"{result.failure}: {result.reason}"
                line = f"{result.task} {result.mode}: {state}"
                bar.update(row, advance=1, description=line[:60])
                if bar.disable:
                    print(f"toolfold: {line[:200]} ({result.seconds:.0f} s)", file=sys.stderr, flush=True)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(in_flight):
                    group.create_task(work())
        except* (UsageError, ToolUnreachable) as errors:
            raise errors.exceptions[0] from None
    return Exit.FINISHED


def _report(
    results: list[TaskResult], total: int, settings: dict[str, Json], page: Path | None, code: int, *, as_json: bool
) -> int:  # fmt: skip
    from toolfold.interfaces.evaluation import report

    summary = report.summary_of(results)
    if page is not None:
        title = f"toolfold {settings['version']}: {settings['model']}, {len(results)} of {total} runs"
        _write(page, report.report_page(summary, results, title))
        _write(page.with_suffix(".json"), report.as_json(summary, results, settings))
    if as_json:
        write_json({"settings": settings, "runs": len(results), "remaining": total - len(results), **summary})
    elif results:
        print("\n".join(report.report_lines(summary)))
    if len(results) < total and code == Exit.FINISHED:
        complain(f"{total - len(results)} of {total} runs have no result yet; the same command continues", code=code)
    return code


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"report {str(path)!r} cannot be written: {error.strerror}") from error


def _compare(paths: tuple[Path, Path], *, as_json: bool) -> int:
    import msgspec

    from toolfold.interfaces.cli.commands.batch import open_results
    from toolfold.interfaces.evaluation.report import compare, comparison_lines
    from toolfold.interfaces.evaluation.tasks import TaskResult

    both: list[list[TaskResult]] = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"no results {str(path)!r}; check the path")
        with open_results(path) as results:
            items = [item for item in results.read_lines() if "settings" not in item]
        try:
            both.append(msgspec.convert(items, list[TaskResult]))
        except msgspec.ValidationError as error:
            raise UsageError(f"{str(path)!r} is no file of an evaluation: {error}") from error
    rows = compare(*both)
    if as_json:
        write_json(rows)
    else:
        print("\n".join(comparison_lines(rows, (str(paths[0]), str(paths[1])))))
    return Exit.FINISHED
