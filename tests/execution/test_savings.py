"""What programs save, counted in an outcome."""

import toolfold
from toolfold.execution.outcome import code_size, context_saved
from toolfold.models import CallRecord, ContextSaved


def price(ticker: str) -> float:
    """The last price of one share."""
    return 12.5


def test_all_calls_and_replies_are_weighed_against_the_program_and_what_it_showed() -> None:
    calls = [
        CallRecord(id=1, name="list", arguments={}, bytes_in=2, bytes_out=400),
        CallRecord(id=2, name="get", arguments={"id": 7}, bytes_in=8, bytes_out=1_000),
    ]

    saved = context_saved(calls, code_bytes=code_size("print(1)"), shown_bytes=2)

    program = len('execute_program{"code":"print(1)"}') + 2
    assert saved == ContextSaved(tokens=345, bytes=(4 + 2 + 400) + (3 + 8 + 1_000) - program)


def test_one_small_call_is_a_loss_and_says_so() -> None:
    outcome = toolfold.run_sync('print(await price(ticker="A"))', tools=[price])

    program = r'execute_program{"code":"print(await price(ticker=\"A\"))"}'
    lost = len('price{"ticker":"A"}') + len("12.5") - len(program) - len("12.5\n")
    assert outcome.context_saved == ContextSaved(tokens=round(lost / 4), bytes=lost)
    assert outcome.context_saved.bytes < 0


def test_a_program_that_failed_has_replaced_no_call() -> None:
    outcome = toolfold.run_sync('await price(ticker="A")\nraise SystemExit(3)', tools=[price])

    program = r'execute_program{"code":"await price(ticker=\"A\")\nraise SystemExit(3)"}'
    lost = len(program) + len(outcome.stdout.encode()) + len(outcome.stderr.encode())
    assert (outcome.status, len(outcome.calls)) == ("failed", 1)
    assert outcome.context_saved == ContextSaved(tokens=round(-lost / 4), bytes=-lost)


def test_a_rejected_program_costs_its_text_and_the_answer() -> None:
    outcome = toolfold.run_sync('await price(tiker="A")', tools=[price])

    lost = len(r'execute_program{"code":"await price(tiker=\"A\")"}') + len(str(outcome.problem).encode())
    assert outcome.status == "rejected"
    assert outcome.context_saved == ContextSaved(tokens=round(-lost / 4), bytes=-lost)


def test_a_text_with_half_a_character_is_counted_too() -> None:
    outcome = toolfold.run_sync("print('\ud800')")

    assert outcome.status == "rejected"
    assert outcome.context_saved.bytes < -len('execute_program{"code":""}')
