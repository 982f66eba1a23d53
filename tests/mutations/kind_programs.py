"""Twenty right programs as models write them, over the tools of `kind_tools.py`."""

PROGRAMS: dict[str, str] = {}

PROGRAMS["weather_report"] = r"""
cities = await list_cities(country="DE")
report = []
for city in cities:
    weather = await get_weather(city=city)
    report.append({"city": city, "temp": weather["temp"], "condition": weather["condition"]})

report.sort(key=lambda entry: entry["temp"], reverse=True)
for entry in report:
    print(f"{entry['city']}: {entry['temp']:.1f} degrees, {entry['condition']}")

warmest = report[0]
average = sum(entry["temp"] for entry in report) / len(report)
print(f"Warmest: {warmest['city']}")
print(f"Average: {average:.2f}")
"""

PROGRAMS["ticket_stats"] = r"""
import asyncio
import statistics
from collections import Counter


async def main():
    tickets = await list_tickets(status="open", limit=10)
    closed = await list_tickets(status="closed")
    hours = [ticket["hours"] for ticket in tickets]
    priorities = Counter(ticket["priority"] for ticket in tickets)
    print(f"Open tickets: {len(tickets)}")
    print(f"Closed tickets: {len(closed)}")
    print(f"Mean hours: {statistics.mean(hours):.2f}")
    print(f"Median hours: {statistics.median(hours):.2f}")
    for priority, number in priorities.most_common():
        print(f"  {priority}: {number}")


asyncio.run(main())
"""

PROGRAMS["user_gather"] = r"""
import asyncio

users = await list_users(team="sales")
profiles = await asyncio.gather(*[get_user(user_id=user["id"]) for user in users])

by_country = {}
for user, profile in zip(users, profiles):
    country = profile["address"]["country"]
    by_country.setdefault(country, []).append(user["name"])

for country, names in sorted(by_country.items()):
    print(f"{country}: {', '.join(names)}")

total = sum(profile["salary"] for profile in profiles)
print(f"Total salary: {total}")
"""

PROGRAMS["order_totals"] = r"""
def order_total(order):
    total = 0
    for item in order["items"]:
        total += item["quantity"] * item["unit_price"]
    return total


async def fetch_orders(customer, limit=5):
    numbers = await list_orders(customer=customer, limit=limit)
    orders = []
    for number in numbers:
        orders.append(await get_order(order_id=number))
    return orders


orders = await fetch_orders("Initech", limit=3)
paid = [order for order in orders if order["status"] == "paid"]
for order in paid:
    total = order_total(order)
    print(f"Order {order['id']}: {total:.2f}")
revenue = sum(order_total(order) for order in paid)
print(f"Revenue: {revenue:.2f} from {len(paid)} of {len(orders)} orders")
"""

PROGRAMS["error_handling"] = r"""
found = []
missing = []
for user_id in ["u1", "u9", "u4", "nobody"]:
    try:
        profile = await get_user(user_id=user_id)
    except ToolError as error:
        missing.append(user_id)
        print(f"Could not load {user_id}")
    else:
        found.append(profile)

for profile in found:
    address = profile["address"]
    print(f"{profile['name']} lives in {address['city']}")
    skills = ", ".join(skill.upper() for skill in profile["skills"])
    print(f"  skills: {skills}")
open_count = await count_tickets(status="open")
print(f"{len(found)} found, {len(missing)} missing, {open_count} open tickets")
"""

PROGRAMS["retry"] = r"""
import asyncio


async def with_retry(ticker, attempts=3):
    for attempt in range(attempts):
        try:
            quote = await get_quote(ticker=ticker)
            return quote
        except ToolError as error:
            print(f"Attempt {attempt + 1} for {ticker} failed")
            await asyncio.sleep(0.001)
    return None


async def main():
    results = {}
    for ticker in ["ACME", "NOPE", "OMNI"]:
        results[ticker] = await with_retry(ticker, attempts=2)
    for ticker, quote in results.items():
        if quote is None:
            print(f"{ticker}: not available")
        else:
            print(f"{ticker}: {quote['price']:.2f} {quote['currency']}")
    available = [quote for quote in results.values() if quote is not None]
    print(f"Best price: {max(quote['price'] for quote in available)}")


if __name__ == "__main__":
    asyncio.run(main())
"""

PROGRAMS["config_json"] = r"""
import json

text = await read_document(name="config.json")
config = json.loads(text)
threshold = config["threshold"]
summary = {}
for team in config["teams"]:
    members = await list_users(team=team)
    older = [member["name"] for member in members if member["age"] > threshold + 25]
    summary[team] = {"size": len(members), "older": older}

closed = await count_tickets("closed")
summary["closed"] = closed
summary["within_limit"] = closed <= config["limits"]["tickets"]
print(json.dumps(summary, indent=2, sort_keys=True))
print(f"Teams checked: {len(config['teams'])}")
"""

PROGRAMS["portfolio_class"] = r"""
import asyncio
import json


class Portfolio:
    def __init__(self, holdings):
        self.holdings = holdings
        self.quotes = {}

    async def load(self, currency="USD"):
        tickers = list(self.holdings)
        replies = await asyncio.gather(*(get_quote(ticker, currency=currency) for ticker in tickers))
        for reply in replies:
            self.quotes[reply["ticker"]] = reply

    def value_of(self, ticker):
        return self.holdings[ticker] * self.quotes[ticker]["price"]

    def total(self):
        return sum(self.value_of(ticker) for ticker in self.holdings)


weights = json.loads(await read_document("weights.json"))
portfolio = Portfolio(weights)
await portfolio.load(currency="EUR")
for ticker in sorted(portfolio.holdings):
    print(f"{ticker:<6}{portfolio.value_of(ticker):>10.2f}")
print(f"Total: {portfolio.total():.2f}")
"""

PROGRAMS["ticket_ages"] = r"""
from datetime import datetime, timedelta

now = datetime(2024, 3, 10, 12, 0, 0)
tickets = await list_tickets(status="open")
pending = await list_tickets(status="pending", limit=5)
ages = []
for ticket in tickets + pending:
    created = datetime.fromisoformat(ticket["created"])
    age = now - created
    ages.append((ticket["title"], age.days))
    if age > timedelta(days=7):
        print(f"OVERDUE {ticket['title']} ({created.strftime('%d %b %Y')})")

ages.sort(key=lambda pair: pair[1])
oldest_title, oldest_days = ages[-1]
print(f"Oldest: {oldest_title}, {oldest_days} days")
print("Newest:", ages[0][0].lower())
"""

PROGRAMS["translations"] = r"""
phrases = ["hello", "thanks", "ticket"]
languages = ["de", "fr", "es"]

table = {}
for phrase in phrases:
    row = {}
    for language in languages:
        row[language] = await translate(text=phrase, language=language)
    table[phrase] = row

for phrase in sorted(table):
    words = [f"{language}={word}" for language, word in table[phrase].items()]
    print(phrase.capitalize().ljust(10) + " | ".join(words))

greeting = await translate("good morning", "de")
print(greeting.title())
longest = max((word for row in table.values() for word in row.values()), key=len)
print("Longest:", longest, len(longest))
"""

PROGRAMS["team_budget"] = r"""
import asyncio


async def budget_line(name):
    team = await get_team(team=name)
    budget = team["budget"]
    left = budget["total"] - budget["spent"]
    months = {month["month"]: month["amount"] for month in budget["months"]}
    peak = max(months, key=months.get)
    return {"team": name, "lead": team["lead"]["name"], "left": left, "peak": peak}


async def main():
    lines = await asyncio.gather(budget_line("sales"), budget_line("support"))
    for line in lines:
        state = "over budget" if line["left"] < 0 else "ok"
        print(f"{line['team']}: {line['left']:.0f} left, {state}, lead {line['lead']}, peak {line['peak']}")
    worst = min(lines, key=lambda line: line["left"])
    people = await list_users(worst["team"])
    print(f"Ask {', '.join(person['name'] for person in people)} to save")


asyncio.run(main())
"""

PROGRAMS["dataclass_report"] = r"""
from dataclasses import dataclass, field


@dataclass
class CustomerReport:
    name: str
    email: str = ""
    totals: list = field(default_factory=list)

    def add(self, order):
        self.email = order["customer"]["email"]
        amount = sum(item["quantity"] * item["unit_price"] for item in order["items"])
        self.totals.append(amount)

    def summary(self):
        return f"{self.name} <{self.email}>: {len(self.totals)} orders, {sum(self.totals):.2f}"


reports = []
for customer in ["Initech", "Globex"]:
    report = CustomerReport(name=customer)
    for order_id in await list_orders(customer=customer):
        order = await get_order(order_id=order_id)
        if order["status"] != "cancelled":
            report.add(order)
    reports.append(report)

for report in sorted(reports, key=lambda report: report.name):
    print(report.summary())
"""

PROGRAMS["semaphore"] = r"""
import asyncio

limit = asyncio.Semaphore(2)


async def fetch_weather(city):
    async with limit:
        return await get_weather(city=city, units="fahrenheit")


async def main():
    countries = ["DE", "FR", "ES"]
    city_lists = await asyncio.gather(*[list_cities(country) for country in countries])
    cities = [city for cities in city_lists for city in cities]
    replies = await asyncio.gather(*[fetch_weather(city) for city in cities])
    sunny = [reply["city"] for reply in replies if reply["condition"] == "sunny"]
    print("Sunny:", ", ".join(sorted(sunny)))
    hottest = max(replies, key=lambda reply: reply["temp"])
    print(f"Hottest: {hottest['city']} with {round(hottest['temp'])} F")
    humid = sum(1 for reply in replies if reply["humidity"] >= 60)
    print(f"Humid cities: {humid} of {len(replies)}")


await main()
"""

PROGRAMS["group_tickets"] = r"""
from collections import defaultdict
from itertools import chain

groups = defaultdict(list)
batches = [await list_tickets(status) for status in ("open", "closed", "pending")]
for ticket in chain.from_iterable(batches):
    groups[ticket["assignee"]].append(ticket)

names = {}
for assignee in groups:
    profile = await get_user(assignee)
    names[assignee] = profile["name"]

for assignee, tickets in sorted(groups.items()):
    hours = sum(ticket["hours"] for ticket in tickets)
    urgent = [ticket["title"] for ticket in tickets if ticket["priority"] == "high"]
    print(f"{names[assignee]}: {len(tickets)} tickets, {hours:.1f} hours")
    if urgent:
        print("  urgent: " + "; ".join(urgent))
    else:
        print("  nothing urgent")
"""

PROGRAMS["csv_table"] = r"""
import csv
import io

text = await read_document("members.csv")
roles = {row["id"]: row["role"] for row in csv.DictReader(io.StringIO(text))}
members = await list_users(team="sales", min_age=30)

buffer = io.StringIO()
writer = csv.writer(buffer)
writer.writerow(["name", "role", "city"])
for member in members:
    profile = await get_user(user_id=member["id"])
    role = roles.get(member["id"], "unknown")
    writer.writerow([member["name"], role, profile["address"]["city"]])

lines = buffer.getvalue().strip().splitlines()
for line in lines:
    print(line.replace(",", "\t"))
print(f"{len(lines) - 1} rows")
"""

PROGRAMS["notify_leads"] = r"""
async def lead_of(team_name):
    team = await get_team(team_name)
    return team["lead"]


def make_body(name, tickets):
    lines = [f"Dear {name},"]
    for ticket in tickets:
        lines.append(f"- {ticket['title']} ({ticket['priority']})")
    return "\n".join(lines)


tickets = await list_tickets(status="open", limit=2)
lead = await lead_of("support")
body = make_body(lead["name"], tickets)
sent = await send_message(recipients=[lead["email"]], subject="Open tickets", body=body, urgent=True)
print(body)
if sent == 1:
    print(f"Sent to {lead['email']}")
else:
    print(f"Sent {sent} messages")
"""

PROGRAMS["risk_math"] = r"""
import math
import statistics


async def prices(tickers):
    values = []
    for ticker in tickers:
        quote = await get_quote(ticker=ticker, currency="USD")
        values.append(quote["price"])
    return values


def scaled(values, factor=1.0):
    return [round(value * factor, 2) for value in values]


tickers = ["ACME", "INIT", "ZETA"]
values = await prices(tickers)
spread = statistics.stdev(values)
norm = math.sqrt(sum(value ** 2 for value in values))
print("Prices:", scaled(values, factor=1.1))
print(f"Spread {spread:.3f}, norm {norm:.3f}, ceiling {math.ceil(norm)}")
best = await get_quote(tickers[values.index(max(values))])
print(f"Best is {best['ticker']} with volume {best['volume']:,}")
"""

PROGRAMS["document_regex"] = r"""
import re
from datetime import date

notes = await read_document(name="notes.txt")
emails = re.findall(r"[\w.]+@[\w.]+\w", notes)
dates = sorted(date.fromisoformat(found) for found in re.findall(r"\d{4}-\d{2}-\d{2}", notes))
known = {user["email"]: user for user in await list_users(team="sales")}

for email in emails:
    if email in known:
        print(f"{email} is {known[email]['name']}, aged {known[email]['age']}")
    else:
        print(f"{email} is unknown")
print("Dates:", ", ".join(day.isoformat() for day in dates))
match = re.search(r"order (\d+)", notes)
if match:
    order = await get_order(order_id=int(match.group(1)))
    customer = order["customer"]["name"].upper()
    print(f"Order {order['id']} of {customer} is {order['status']}")
"""

PROGRAMS["paging"] = r"""
import asyncio
from typing import Any


class Pager:
    def __init__(self, status: str, step: int = 1) -> None:
        self.status = status
        self.step = step
        self.rows: list[dict[str, Any]] = []

    async def fetch_all(self) -> list[dict[str, Any]]:
        expected = await count_tickets(status=self.status)
        size = 0
        while len(self.rows) < expected:
            size += self.step
            self.rows = await list_tickets(status=self.status, limit=size)
        return self.rows

    def titles(self) -> list[str]:
        return [row["title"] for row in self.rows]


async def main() -> None:
    for status in ["open", "closed"]:
        pager = Pager(status, step=2)
        rows = await pager.fetch_all()
        print(f"{status.upper()}: {len(rows)} tickets")
        for index, title in enumerate(pager.titles(), start=1):
            print(f"  {index}. {title}")


if __name__ == "__main__":
    asyncio.run(main())
"""

PROGRAMS["tasks_and_zip"] = r"""
import asyncio


async def describe(city: str, language: str) -> str:
    weather = await get_weather(city)
    word = await translate(weather["condition"], language=language)
    return f"{city}: {word} ({weather['humidity']} %)"


async def main():
    cities = await list_cities("FR")
    tasks = [asyncio.create_task(describe(city, "fr")) for city in cities]
    lines = [await task for task in tasks]
    for number, line in enumerate(lines, 1):
        print(f"{number}. {line}")
    quotes = await asyncio.gather(get_quote("ACME"), get_quote("ZETA"))
    for city, quote in zip(cities, quotes):
        value = quote["price"] * quote["volume"]
        print(f"{city} / {quote['ticker']}: {value:,.0f}")
    return len(lines)


count = await main()
print("Lines written:", count)
"""

PROGRAMS = {name: text.lstrip("\n") for name, text in PROGRAMS.items()}
