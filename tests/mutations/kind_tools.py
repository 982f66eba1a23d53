"""Twelve tools with exact types and fixed replies: the ground on which the right and the wrong programs stand."""

# Pydantic reads `__pydantic_config__` of the class; no value has that key.
# mypy: disable-error-code="typeddict-item"

from typing import Literal

from pydantic import ConfigDict
from typing_extensions import TypedDict

import toolfold

FORBID = ConfigDict(extra="forbid")


class User(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    id: str
    name: str
    team: str
    email: str
    age: int


class Address(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    street: str
    city: str
    country: str


class Profile(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    id: str
    name: str
    address: Address
    skills: list[str]
    salary: int


class Weather(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    city: str
    temp: float
    humidity: int
    condition: Literal["sunny", "cloudy", "rainy", "snowy"]


class Ticket(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    id: int
    title: str
    status: Literal["open", "closed", "pending"]
    priority: Literal["low", "medium", "high"]
    assignee: str
    hours: float
    created: str


class Quote(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    ticker: str
    price: float
    currency: Literal["USD", "EUR"]
    volume: int


class Customer(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    name: str
    email: str


class Item(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    sku: str
    quantity: int
    unit_price: float


class Order(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    id: int
    customer: Customer
    items: list[Item]
    status: Literal["paid", "shipped", "cancelled"]


class Month(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    month: str
    amount: float


class Budget(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    total: float
    spent: float
    months: list[Month]


class Team(TypedDict):
    __pydantic_config__ = FORBID  # type: ignore[misc]
    team: str
    lead: Customer
    budget: Budget


_USERS: list[User] = [
    {"id": "u1", "name": "Ann Lee", "team": "sales", "email": "ann@example.com", "age": 34},
    {"id": "u2", "name": "Bob Ray", "team": "sales", "email": "bob@example.com", "age": 45},
    {"id": "u3", "name": "Cyd Fox", "team": "sales", "email": "cyd@example.com", "age": 29},
    {"id": "u4", "name": "Dan Poe", "team": "support", "email": "dan@example.com", "age": 51},
    {"id": "u5", "name": "Eve Orr", "team": "support", "email": "eve@example.com", "age": 38},
]
_ADDRESSES: list[Address] = [
    {"street": "Main St 1", "city": "Berlin", "country": "DE"},
    {"street": "Rue Haute 2", "city": "Paris", "country": "FR"},
    {"street": "Am Markt 3", "city": "Munich", "country": "DE"},
    {"street": "Gran Via 4", "city": "Madrid", "country": "ES"},
    {"street": "Quai Bas 5", "city": "Lyon", "country": "FR"},
]
_SKILLS = [["python", "sql"], ["excel"], ["sql", "design"], ["python"], ["support", "excel", "sql"]]
_SALARIES = [5200, 6100, 4300, 7000, 4900]
_TICKETS: list[Ticket] = [
    {
        "id": 1,
        "title": "Login fails",
        "status": "open",
        "priority": "high",
        "assignee": "u4",
        "hours": 5.5,
        "created": "2024-03-01T09:00:00",
    },
    {
        "id": 2,
        "title": "Slow search",
        "status": "open",
        "priority": "medium",
        "assignee": "u5",
        "hours": 3.0,
        "created": "2024-03-04T10:30:00",
    },
    {
        "id": 3,
        "title": "Typo on page",
        "status": "closed",
        "priority": "low",
        "assignee": "u4",
        "hours": 0.5,
        "created": "2024-02-11T08:15:00",
    },
    {
        "id": 4,
        "title": "Crash on save",
        "status": "open",
        "priority": "high",
        "assignee": "u5",
        "hours": 8.0,
        "created": "2024-03-09T16:45:00",
    },
    {
        "id": 5,
        "title": "Add export",
        "status": "pending",
        "priority": "medium",
        "assignee": "u4",
        "hours": 12.0,
        "created": "2024-01-20T11:00:00",
    },
    {
        "id": 6,
        "title": "Broken link",
        "status": "closed",
        "priority": "medium",
        "assignee": "u5",
        "hours": 1.5,
        "created": "2024-02-28T13:20:00",
    },
]
_CITIES = {"DE": ["Berlin", "Munich", "Hamburg"], "FR": ["Paris", "Lyon"], "ES": ["Madrid"]}
_WEATHER: dict[str, tuple[float, int, Literal["sunny", "cloudy", "rainy", "snowy"]]] = {
    "Berlin": (12.5, 60, "cloudy"),
    "Munich": (8.0, 75, "snowy"),
    "Hamburg": (10.5, 88, "rainy"),
    "Paris": (16.0, 55, "sunny"),
    "Lyon": (18.5, 48, "sunny"),
    "Madrid": (24.0, 30, "sunny"),
}
_PRICES = {"ACME": (12.5, 1000), "INIT": (40.0, 250), "ZETA": (7.25, 9000), "OMNI": (101.0, 40)}
_WORDS = {
    "de": {"hello": "hallo", "good morning": "guten Morgen", "thanks": "danke", "ticket": "Vorgang"},
    "fr": {"hello": "bonjour", "good morning": "bonjour", "thanks": "merci", "ticket": "billet"},
    "es": {"hello": "hola", "good morning": "buenos días", "thanks": "gracias", "ticket": "boleto"},
}
_DOCUMENTS = {
    "config.json": '{"threshold": 10, "teams": ["sales", "support"], "limits": {"hours": 6.0, "tickets": 4}}',
    "weights.json": '{"ACME": 10, "INIT": 2, "ZETA": 25}',
    "notes.txt": "Call ann@example.com on 2024-03-05.\nShip order 102 to bob@example.com.\nReview budget by 2024-04-01.\n",
    "members.csv": "id,role\nu1,lead\nu2,member\nu3,member\n",
}
_ORDERS: list[Order] = [
    {
        "id": 101,
        "customer": {"name": "Initech", "email": "buy@initech.example"},
        "items": [{"sku": "A1", "quantity": 2, "unit_price": 9.5}, {"sku": "B2", "quantity": 1, "unit_price": 100.0}],
        "status": "paid",
    },
    {
        "id": 102,
        "customer": {"name": "Globex", "email": "ops@globex.example"},
        "items": [{"sku": "A1", "quantity": 10, "unit_price": 9.0}],
        "status": "shipped",
    },
    {
        "id": 103,
        "customer": {"name": "Initech", "email": "buy@initech.example"},
        "items": [{"sku": "C3", "quantity": 4, "unit_price": 25.25}],
        "status": "cancelled",
    },
    {
        "id": 104,
        "customer": {"name": "Initech", "email": "buy@initech.example"},
        "items": [{"sku": "B2", "quantity": 3, "unit_price": 95.0}, {"sku": "C3", "quantity": 1, "unit_price": 25.25}],
        "status": "paid",
    },
]
_BUDGETS: dict[str, Team] = {
    "sales": {
        "team": "sales",
        "lead": {"name": "Ann Lee", "email": "ann@example.com"},
        "budget": {
            "total": 900.0,
            "spent": 640.0,
            "months": [
                {"month": "2024-01", "amount": 200.0},
                {"month": "2024-02", "amount": 240.0},
                {"month": "2024-03", "amount": 200.0},
            ],
        },
    },
    "support": {
        "team": "support",
        "lead": {"name": "Dan Poe", "email": "dan@example.com"},
        "budget": {
            "total": 500.0,
            "spent": 560.0,
            "months": [{"month": "2024-01", "amount": 260.0}, {"month": "2024-02", "amount": 300.0}],
        },
    },
}


@toolfold.tool(read_only=True)
async def list_users(team: str, min_age: int = 0) -> list[User]:
    """People of one team, optionally only those of at least some age."""
    return [user for user in _USERS if user["team"] == team and user["age"] >= min_age]


@toolfold.tool(read_only=True)
async def get_user(user_id: str) -> Profile:
    """The profile of one person."""
    for index, user in enumerate(_USERS):
        if user["id"] == user_id:
            return {
                "id": user_id,
                "name": user["name"],
                "address": _ADDRESSES[index],
                "skills": _SKILLS[index],
                "salary": _SALARIES[index],
            }
    raise ValueError(f"no user {user_id!r}")


@toolfold.tool(read_only=True)
async def get_weather(city: str, units: Literal["celsius", "fahrenheit"] = "celsius") -> Weather:
    """The weather in one city now."""
    if city not in _WEATHER:
        raise ValueError(f"no city {city!r}")
    temp, humidity, condition = _WEATHER[city]
    return {
        "city": city,
        "temp": temp if units == "celsius" else temp * 9 / 5 + 32,
        "humidity": humidity,
        "condition": condition,
    }


@toolfold.tool(read_only=True)
async def list_cities(country: Literal["DE", "FR", "ES"]) -> list[str]:
    """Names of the cities of one country."""
    return _CITIES[country]


@toolfold.tool(read_only=True)
async def list_tickets(status: Literal["open", "closed", "pending"], limit: int = 10) -> list[Ticket]:
    """Support tickets with one status, oldest number first."""
    return [ticket for ticket in _TICKETS if ticket["status"] == status][:limit]


@toolfold.tool(read_only=True)
async def count_tickets(status: Literal["open", "closed", "pending"]) -> int:
    """How many tickets have one status."""
    return sum(ticket["status"] == status for ticket in _TICKETS)


@toolfold.tool(read_only=True)
async def translate(text: str, language: Literal["de", "fr", "es"]) -> str:
    """A text in another language."""
    return _WORDS[language].get(text, f"[{language}] {text}")


@toolfold.tool(read_only=True)
async def get_quote(ticker: str, currency: Literal["USD", "EUR"] = "USD") -> Quote:
    """The last price of one share."""
    if ticker not in _PRICES:
        raise ValueError(f"no share {ticker!r}")
    price, volume = _PRICES[ticker]
    return {
        "ticker": ticker,
        "price": price if currency == "USD" else price * 0.5,
        "currency": currency,
        "volume": volume,
    }


@toolfold.tool(read_only=True)
async def list_orders(customer: str, limit: int = 5) -> list[int]:
    """Numbers of the orders of one customer."""
    return [order["id"] for order in _ORDERS if order["customer"]["name"] == customer][:limit]


@toolfold.tool(read_only=True)
async def get_order(order_id: int) -> Order:
    """One order with its items."""
    for order in _ORDERS:
        if order["id"] == order_id:
            return order
    raise ValueError(f"no order {order_id}")


@toolfold.tool(read_only=True)
async def read_document(name: str) -> str:
    """The text of one document."""
    if name not in _DOCUMENTS:
        raise ValueError(f"no document {name!r}")
    return _DOCUMENTS[name]


@toolfold.tool(read_only=True)
async def get_team(team: Literal["sales", "support"]) -> Team:
    """A team with its lead and its budget."""
    return _BUDGETS[team]


@toolfold.tool
async def send_message(recipients: list[str], subject: str, body: str, urgent: bool = False) -> int:
    """Send a message to people; returns how many of them it was sent to."""
    return len(recipients)


TOOLS = (
    list_users,
    get_user,
    get_weather,
    list_cities,
    list_tickets,
    count_tickets,
    translate,
    get_quote,
    list_orders,
    get_order,
    read_document,
    get_team,
    send_message,
)
