"""Tools of the corpus of valid programs: deterministic, without input or output."""

# Pydantic reads `__pydantic_config__` of the class; no value has that key.
# mypy: disable-error-code="typeddict-item"

from __future__ import annotations

import json
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict
from typing_extensions import TypedDict

import toolfold

CLOSED = ConfigDict(extra="forbid")

Role = Literal["admin", "member", "guest"]
Status = Literal["open", "paid", "shipped"]
Sky = Literal["sunny", "cloudy", "rain"]
Currency = Literal["USD", "EUR", "GBP"]


class User(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    id: int
    name: str
    email: str
    role: Role
    team: str
    active: bool


class Wind(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    speed: float
    direction: str


class Weather(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    city: str
    temperature: float
    unit: Literal["c", "f"]
    sky: Sky
    wind: Wind
    alert: NotRequired[str]


class Customer(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    name: str
    vip: bool


class OrderItem(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    sku: str
    qty: int
    price: float


class Order(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    id: str
    status: Status
    customer: Customer
    items: list[OrderItem]
    note: NotRequired[str]


class OrderSummary(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    id: str
    status: Status
    total: float


class Employee(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    name: str
    manager: str | None
    salary: int
    skills: list[str]


class Window(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    start: int
    end: int
    step: NotRequired[int]


class Point(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    t: int
    v: int


class Metrics(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    service: str
    points: list[Point]


class TreeNode(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    name: str
    size: int
    children: list[TreeNode]


class Line(TypedDict):
    __pydantic_config__ = CLOSED  # type: ignore[misc]
    price: float
    qty: int


_USERS: tuple[tuple[int, str, Role, str, bool], ...] = (
    (1, "Ada", "admin", "core", True),
    (2, "Bob", "member", "core", True),
    (3, "Cyd", "guest", "sales", False),
    (4, "Dee", "member", "sales", True),
    (5, "Eve", "member", "ops", True),
)


def _user(row: tuple[int, str, Role, str, bool]) -> User:
    number, name, role, team, active = row
    return {"id": number, "name": name, "email": f"{name.lower()}@x.org", "role": role, "team": team, "active": active}


def _order(order_id: str) -> Order:
    if order_id == "A1":
        return {
            "id": "A1",
            "status": "paid",
            "customer": {"name": "Ann", "vip": True},
            "items": [{"sku": "pen", "qty": 4, "price": 1.5}, {"sku": "book", "qty": 1, "price": 20.0}],
        }
    if order_id == "A2":
        return {
            "id": "A2",
            "status": "open",
            "customer": {"name": "Ben", "vip": False},
            "items": [{"sku": "lamp", "qty": 2, "price": 30.25}],
        }
    if order_id == "A3":
        return {
            "id": "A3",
            "status": "shipped",
            "customer": {"name": "Ann", "vip": True},
            "items": [{"sku": "pen", "qty": 10, "price": 1.5}],
            "note": "ring twice",
        }
    raise ValueError(f"no order {order_id!r}")


@toolfold.tool(read_only=True)
async def get_user(user_id: int) -> User:
    """One user; fails for an unknown id."""
    for row in _USERS:
        if row[0] == user_id:
            return _user(row)
    raise ValueError(f"no user {user_id}")


@toolfold.tool(read_only=True)
async def list_users(team: str | None = None, role: Role | None = None, limit: int = 10) -> list[User]:
    """Users, of one team or role if given."""
    users = [_user(row) for row in _USERS if team in (None, row[3]) and role in (None, row[2])]
    return users[:limit]


@toolfold.tool(read_only=True)
async def get_weather(city: str, unit: Literal["c", "f"] = "c") -> Weather:
    """The weather in one city; fails for an unknown city."""
    known: dict[str, tuple[float, Sky, float, str]] = {
        "oslo": (4.0, "rain", 7.5, "NW"),
        "rome": (21.0, "sunny", 2.0, "S"),
        "lima": (18.5, "cloudy", 3.25, "W"),
        "cairo": (33.0, "sunny", 5.0, "N"),
    }
    if city.lower() not in known:
        raise LookupError(f"no city {city!r}")
    temperature, sky, speed, direction = known[city.lower()]
    reply: Weather = {
        "city": city.lower(),
        "temperature": temperature if unit == "c" else temperature * 9 / 5 + 32,
        "unit": unit,
        "sky": sky,
        "wind": {"speed": speed, "direction": direction},
    }
    if city.lower() == "lima":
        reply["alert"] = "fog"
    return reply


@toolfold.tool(read_only=True)
async def get_order(order_id: str) -> Order:
    """One order with its items; fails for an unknown id."""
    return _order(order_id)


@toolfold.tool(read_only=True)
async def list_orders(status: Status | None = None, ids: list[str] | None = None) -> list[OrderSummary]:
    """Orders, of one status or with the given ids."""
    rows: list[OrderSummary] = []
    for order_id in ("A1", "A2", "A3"):
        order = _order(order_id)
        total = sum(item["qty"] * item["price"] for item in order["items"])
        if status in (None, order["status"]) and (ids is None or order_id in ids):
            rows.append({"id": order_id, "status": order["status"], "total": total})
    return rows


@toolfold.tool(read_only=True)
async def search_docs(query: str, tags: list[str] = [], limit: int = 5) -> list[dict[str, Any]]:  # noqa: B006
    """Documents whose title contains the query and that have all the tags."""
    documents: list[dict[str, Any]] = [
        {"id": 10, "title": "Async basics", "tags": ["python", "async"], "score": 0.9},
        {"id": 11, "title": "Basic sorting", "tags": ["python"], "score": 0.5, "author": {"name": "Kim"}},
        {"id": 12, "title": "Rust basics", "tags": ["rust"], "score": 0.7},
        {"id": 13, "title": "Gardening", "tags": [], "score": None},
    ]
    found = [d for d in documents if query.lower() in d["title"].lower() and all(t in d["tags"] for t in tags)]
    return found[:limit]


@toolfold.tool(read_only=True)
async def get_config(name: str) -> dict[str, Any]:
    """A configuration; empty if there is none of that name."""
    configs: dict[str, dict[str, Any]] = {
        "web": {"port": 8080, "hosts": ["a.example", "b.example"], "tls": {"on": True, "versions": [1.2, 1.3]}},
        "db": {"port": 5432, "user": "app", "pool": {"min": 1, "max": 8}, "replica": None},
    }
    return configs.get(name, {})


@toolfold.tool(read_only=True)
async def fetch_page(url: str) -> str:
    """The text of a page: HTML, or JSON or CSV by its ending."""
    if url.endswith(".json"):
        return json.dumps({"url": url, "numbers": [3, 1, 2], "ok": True})
    if url.endswith(".csv"):
        return "name,qty\npen,4\nbook,1\nlamp,2\n"
    return f"<html><title>{url}</title><p>3 apples, 12 pears</p></html>"


@toolfold.tool(read_only=True)
async def count_items(category: str) -> int:
    """How many items a category has."""
    return {"book": 12, "pen": 40, "lamp": 3}.get(category, 0)


@toolfold.tool
async def send_note(to: str, text: str, priority: Literal["low", "normal", "high"] = "normal") -> None:
    """Send a note. Returns nothing."""
    return


@toolfold.tool(read_only=True)
async def find_employee(name: str) -> Employee | None:
    """An employee by name, or nothing."""
    staff: dict[str, Employee] = {
        "Gus": {"name": "Gus", "manager": "Fay", "salary": 50, "skills": ["go", "sql"]},
        "Fay": {"name": "Fay", "manager": "Hal", "salary": 80, "skills": ["sql"]},
        "Hal": {"name": "Hal", "manager": None, "salary": 120, "skills": []},
    }
    return staff.get(name)


@toolfold.tool(read_only=True)
async def get_metrics(service: str, window: Window) -> Metrics:
    """The points of one service in a window of time."""
    times = range(window["start"], window["end"], window.get("step", 1))
    return {"service": service, "points": [{"t": t, "v": (t * 7 + len(service)) % 10} for t in times]}


@toolfold.tool(read_only=True)
async def convert(amount: float, source: Currency, target: Currency = "USD") -> float:
    """An amount in another currency."""
    rates = {"USD": 1.0, "EUR": 2.0, "GBP": 4.0}
    return amount * rates[source] / rates[target]


@toolfold.tool(read_only=True)
async def get_tree(path: str = "/") -> TreeNode:
    """A folder with what is below it; fails for an unknown path."""

    def leaf(name: str, size: int) -> TreeNode:
        return {"name": name, "size": size, "children": []}

    etc: TreeNode = {"name": "etc", "size": 0, "children": [leaf("hosts", 3), leaf("motd", 5)]}
    if path == "/etc":
        return etc
    if path == "/":
        return {"name": "/", "size": 0, "children": [etc, leaf("readme", 7)]}
    raise FileNotFoundError(f"no path {path!r}")


@toolfold.tool(read_only=True)
async def total_price(lines: list[Line], discount: float = 0.0) -> float:
    """The sum over the lines, less a discount between 0 and 1."""
    return sum(line["price"] * line["qty"] for line in lines) * (1 - discount)


TOOLS = (
    get_user,
    list_users,
    get_weather,
    get_order,
    list_orders,
    search_docs,
    get_config,
    fetch_page,
    count_items,
    send_note,
    find_employee,
    get_metrics,
    convert,
    get_tree,
    total_price,
)
