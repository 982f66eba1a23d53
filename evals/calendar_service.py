"""A calendar: events of people in rooms, on the days of one week."""

_PEOPLE = "Ana Ben Cleo Dev Ema Finn Gus Hana".split()
_DAYS = ("mon", "tue", "wed", "thu", "fri")
state = {
    "events": {
        str(i): {
            "id": i, "title": f"{('review', 'standup', 'planning', 'interview')[i % 4]} {i}", "day": _DAYS[i * 3 % 5],
            "hour": 9 + i * 5 % 8, "minutes": (30, 60, 45)[i % 3], "owner": _PEOPLE[i * 3 % 8],
            "room": ("red", "blue", "green")[i % 3],
        }
        for i in range(1, 31)
    },
    "away": {"Ben": ["tue"], "Ema": ["thu", "fri"], "Gus": []},
    "sent": {},
}  # fmt: skip


def list_people() -> list[str]:
    """Names of all people."""
    return _PEOPLE


def list_events(day: str | None = None, owner: str | None = None) -> list[dict]:
    """Events of a day (mon to fri), of a person, or all: id, title, day, hour, minutes, owner and room."""
    return [e for e in state["events"].values() if day in (None, e["day"]) and owner in (None, e["owner"])]


def get_event(event_id: int) -> dict:
    """One event: id, title, day, hour, minutes, owner and room."""
    if str(event_id) not in state["events"]:
        raise ValueError(f"no event {event_id}")
    return state["events"][str(event_id)]


def get_days_away(person: str) -> list[str]:
    """Days on which a person is away."""
    return state["away"].get(person, [])


def move_event(event_id: int, day: str, hour: int) -> dict:
    """Move an event to another day (mon to fri) and hour (9 to 17)."""
    if day not in _DAYS or not 9 <= hour <= 17:
        raise ValueError("day must be mon to fri and hour 9 to 17")
    get_event(event_id).update(day=day, hour=hour)
    return get_event(event_id)


def delete_event(event_id: int) -> str:
    """Delete an event."""
    get_event(event_id)
    del state["events"][str(event_id)]
    return "deleted"


def create_event(title: str, day: str, hour: int, owner: str, minutes: int = 30) -> int:
    """Create an event without a room; returns its id."""
    number = max(map(int, state["events"])) + 1
    state["events"][str(number)] = {
        "id": number, "title": title, "day": day, "hour": hour, "minutes": minutes, "owner": owner, "room": None,
    }  # fmt: skip
    return number


def send_message(person: str, text: str) -> str:
    """Send a person a message."""
    state["sent"][person] = state["sent"].get(person, 0) + 1
    return "sent"
