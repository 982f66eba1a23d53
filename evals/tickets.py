"""Support tickets and the agents who work on them."""

from typing import Literal, TypedDict

_AGENTS = "Iris Jon Kai Lea Mo".split()
_TOPICS = "login billing printer network email".split()
state = {
    "tickets": {
        str(i): {
            "id": i, "topic": _TOPICS[i * 2 % 5], "priority": (i * 7) % 4 + 1, "status": ("open", "waiting", "closed")[i * 5 % 3],
            "agent": _AGENTS[i * 3 % 5] if i % 4 else None, "age_days": i * 11 % 29, "comments": i % 3,
        }
        for i in range(1, 33)
    }
}  # fmt: skip


class Ticket(TypedDict):
    id: int
    topic: str
    priority: int
    status: Literal["open", "waiting", "closed"]
    agent: str | None
    age_days: int
    comments: int


def list_agents() -> list[str]:
    """Names of all agents."""
    return _AGENTS


def search_tickets(
    status: Literal["open", "waiting", "closed"] | None = None, topic: str | None = None, agent: str | None = None
) -> list[int]:
    """Ids of the tickets that match; without arguments of all."""
    wanted = {"status": status, "topic": topic, "agent": agent}
    return [t["id"] for t in state["tickets"].values() if all(v in (None, t[k]) for k, v in wanted.items())]


def get_ticket(ticket_id: int) -> Ticket:
    """One ticket; priority 1 is the most urgent, 4 the least."""
    if str(ticket_id) not in state["tickets"]:
        raise ValueError(f"no ticket {ticket_id}")
    return state["tickets"][str(ticket_id)]


def export_tickets() -> list[Ticket]:
    """Every ticket with all its fields."""
    return list(state["tickets"].values())


def assign_ticket(ticket_id: int, agent: str) -> str:
    """Give a ticket to an agent."""
    if agent not in _AGENTS:
        raise ValueError(f"no agent {agent!r}; there are {', '.join(_AGENTS)}")
    get_ticket(ticket_id)["agent"] = agent
    return "assigned"


def set_status(ticket_id: int, status: Literal["open", "waiting", "closed"]) -> str:
    """Change the status of a ticket."""
    get_ticket(ticket_id)["status"] = status
    return status


def set_priority(ticket_id: int, priority: int) -> str:
    """Change the priority of a ticket, 1 to 4."""
    get_ticket(ticket_id)["priority"] = priority
    return "ok"


def add_comment(ticket_id: int, text: str) -> int:
    """Comment on a ticket; returns how many comments it has."""
    get_ticket(ticket_id)["comments"] += 1
    return get_ticket(ticket_id)["comments"]
