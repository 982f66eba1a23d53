"""What can become of an execution that this process holds."""

from typing import get_args

import pytest

from toolfold.service.executions import TRANSITIONS, Event, State, next_state


def walk(state: State, *events: Event) -> State:
    for event in events:
        state = next_state(state, event)
    return state


@pytest.mark.parametrize(
    ("first", "events", "last"),
    [
        ("starting", ["begin", "end"], "over"),
        ("starting", ["begin", "pause", "resume", "pause", "end"], "over"),
        ("starting", ["end", "end"], "over"),
        ("starting", ["lose"], "lost"),
        ("unread", ["read", "pause", "resume"], "running"),
        ("unread", ["cancel", "cancel", "read", "end"], "over"),
        ("unread", ["end"], "over"),
        ("running", ["pause", "lose"], "lost"),
        ("over", ["lose"], "lost"),
    ],
)
def test_an_execution_lives_by_the_table(first: State, events: list[Event], last: State) -> None:
    assert walk(first, *events) == last


@pytest.mark.parametrize("event", get_args(Event))
def test_what_is_lost_stays_lost_whatever_is_heard_of_it_late(event: Event) -> None:
    assert next_state("lost", event) == "lost"


@pytest.mark.parametrize("state", get_args(State))
def test_every_state_can_be_lost_and_is_reached_from_a_first_one(state: State) -> None:
    reached: set[State] = {"starting", "unread"}
    for _ in get_args(State):
        reached |= {following for (before, _), following in TRANSITIONS.items() if before in reached}

    assert state in reached
    assert next_state(state, "lose") == "lost"


@pytest.mark.parametrize(
    ("state", "event"), [("starting", "pause"), ("paused", "pause"), ("over", "resume"), ("running", "begin")]
)
def test_what_is_not_in_the_table_cannot_happen(state: State, event: Event) -> None:
    with pytest.raises(RuntimeError, match=f"^'{event}' cannot happen to an execution that is {state}$"):
        next_state(state, event)
