"""Mistakes that follow from the certain type of a value, told before the first call; and programs that only look wrong."""

import re
import sys
from pathlib import Path

import pytest

from toolfold import Runtime
from toolfold.models import Json, Problem, Program, ToolSpec
from toolfold.program import Checker

STR: Json = {"type": "string"}
INT: Json = {"type": "integer"}
FLOAT: Json = {"type": "number"}


def _closed(**properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _spec(name: str, output: Json, /, **properties: Json) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return ToolSpec(name=name, python_name=name, input_schema=schema, output_schema=output)


STATUS: Json = {"type": "string", "enum": ["open", "closed", "pending"]}
PRIORITY: Json = {"type": "string", "enum": ["low", "medium", "high"]}
TICKET = _closed(id=INT, title=STR, status=STATUS, priority=PRIORITY, assignee=STR, hours=FLOAT, created=STR)
USER = _closed(id=STR, name=STR, team=STR, email=STR, age=INT)
PROFILE = _closed(id=STR, name=STR, address=_closed(street=STR, city=STR, country=STR), skills=_list(STR), salary=INT)
WEATHER = _closed(city=STR, temp=FLOAT, humidity=INT, condition={"enum": ["sunny", "rainy"], "type": "string"})
CUSTOMER = _closed(name=STR, email=STR)
ITEM = _closed(sku=STR, quantity=INT, unit_price=FLOAT)
TOOLS = (
    _spec("list_users", _list(USER), team=STR, min_age=INT),
    _spec("get_user", PROFILE, user_id=STR),
    _spec("get_weather", WEATHER, city=STR, units=STR),
    _spec("list_cities", _list(STR), country=STR),
    _spec("list_tickets", _list(TICKET), status=STR, limit=INT),
    _spec("count_tickets", INT, status=STR),
    _spec("translate", STR, text=STR, language=STR),
    _spec("get_quote", _closed(ticker=STR, price=FLOAT, currency=STR, volume=INT), ticker=STR),
    _spec("list_orders", _list(INT), customer=STR),
    _spec("get_order", _closed(id=INT, customer=CUSTOMER, items=_list(ITEM), status=STR), order_id=INT),
    _spec("read_document", STR, name=STR),
    _spec("get_team", _closed(team=STR, lead=CUSTOMER), team=STR),
    _spec("send_message", INT, recipients=_list(STR), subject=STR, body=STR),
)
CHECKER = Checker(TOOLS)

TEXT = Path(__file__).with_name("valid_types.txt").read_text(encoding="utf-8")
_, *PARTS = re.split(r"^### (.+)\n", TEXT, flags=re.MULTILINE)

MISTAKES = [
    (
        "people = []\nfor name in 'ab':\n    try:\n        person = await get_user(name)\n    except ToolError:\n"
        "        print(name)\n    else:\n        people.append(person)\nfor person in people:\n"
        "    print(person.get('skils', []))",
        10,
        "the reply of 'get_user' has no key 'skils'; did you mean 'skills'?",
    ),
    (
        "import asyncio\ncalls = []\nfor city in 'ab':\n    calls.append(get_weather(city))\n"
        "for reply in await asyncio.gather(*calls):\n    print(reply['tempp'])",
        6,
        "the reply of 'get_weather' has no key 'tempp'; did you mean 'temp'?",
    ),
    (
        "class Book:\n    def __init__(self):\n        self.quotes = {}\n    async def load(self, ticker):\n"
        "        self.quotes[ticker] = await get_quote(ticker)\nbook = Book()\nawait book.load('A')\n"
        "print([row['id'] for row in await list_tickets('open') if row['priority'] == 'hgih'])",
        8,
        "'hgih' is no value from 'list_tickets'; did you mean 'high'? there are 'low', 'medium', 'high'",
    ),
    (
        "w = await get_weather('Paris')\nw.append(1)",
        2,
        "'w' is a dict from 'get_weather', which has no attribute 'append'; assign a key: w['key'] = value",
    ),
    (
        "print(await get_weather('Paris')['temp'])",
        1,
        "this takes \"['temp']\" of the call before the reply is there; write (await get_weather('Paris'))['temp']",
    ),
    (
        "words = await read_document('a').strip().split()",
        1,
        "this takes '.strip().split()' of the call before the reply is there; "
        "write (await read_document('a')).strip().split()",
    ),
    (
        "users = await list_users('a')\nprint(users()[0])",
        2,
        "'users' is a list from 'list_users', not a function; leave out the parentheses",
    ),
    (
        "import asyncio\nprint(await asyncio.gather(*[await get_user(i) for i in 'ab']))",
        2,
        "'gather' takes calls, and this is a dict already; leave out the 'await' of it",
    ),
    (
        "cities = await list_cities('DE')\nprint(len(await cities))",
        2,
        "'cities' is a list from 'list_cities' already, not a call; leave out this 'await'",
    ),
    (
        "rows = await list_users('a')\nprint(rows.get('results', []))",
        2,
        "'rows' is a list from 'list_users', which has no attribute 'get'; write [... for item in rows]",
    ),
    (
        "n = await count_tickets('open')\nprint(n['count'])",
        2,
        "'n' is a number from 'count_tickets', which has no items; leave out ['count']",
    ),
    (
        "text = await read_document('a')\nprint(text['body'])",
        2,
        "'text' is text from 'read_document', which takes no text as an index; parse it first: json.loads(text)['body']",
    ),
    (
        "rows = await list_users('a')\nprint(rows['name'])",
        2,
        "'rows' is a list from 'list_users', which takes no text as an index; write rows[0]['name'] or loop over it",
    ),
    (
        "print(', '.join(await list_users('a')))",
        1,
        "'join' takes text, and each item of \"(await list_users('a'))\" is a dict; "
        "take one value of each: item['id'] for item in ... (it has 'id', 'name', 'team', 'email', 'age')",
    ),
    (
        "months = (await get_order(1))['items']\nprint(sum(months))",
        2,
        "'sum' cannot take a dict for each item of 'months'; "
        "take one value of each: item['sku'] for item in ... (it has 'sku', 'quantity', 'unit_price')",
    ),
    (
        "print(len(await count_tickets('open')))",
        1,
        "\"(await count_tickets('open'))\" is a number from 'count_tickets', which has no length; use it as it is",
    ),
    (
        "rows = await list_tickets('open')\nrows = rows.append(1)\nprint(len(rows))",
        2,
        "'append' changes 'rows' and gives None; write rows.append(...) without 'rows ='",
    ),
    (
        "names = []\nfor user in await list_users('a'):\n    names = names.append(user['name'])\nprint(names)",
        3,
        "'append' changes 'names' and gives None; write names.append(...) without 'names ='",
    ),
    (
        "name = (await get_user('a'))['name']\nprint(name.uper())",
        2,
        "'name' is text from 'get_user', which has no attribute 'uper'; did you mean 'upper'?",
    ),
    (
        "print((await list_users('a')).json())",
        1,
        "\"(await list_users('a'))\" is a list from 'list_users', which has no attribute 'json'; "
        "leave out '.json': the call gives the value itself",
    ),
    (
        "def show(row):\n    print(row['titel'])\nfor ticket in await list_tickets('open'):\n    show(ticket)",
        2,
        "the reply of 'list_tickets' has no key 'titel'; did you mean 'title'?",
    ),
    (
        "rows = sorted(await list_tickets('open'), key=lambda row: row['hour'])",
        1,
        "the reply of 'list_tickets' has no key 'hour'; did you mean 'hours'?",
    ),
    (
        "import asyncio\nw, n = await asyncio.gather(get_weather('Paris'), count_tickets('open'))\nprint(w['tmp'])",
        3,
        "the reply of 'get_weather' has no key 'tmp'; did you mean 'temp'?",
    ),
    (
        "for i, (u, p) in enumerate(zip(await list_users('a'), await list_tickets('open'))):\n    print(u['nmae'])",
        2,
        "the reply of 'list_users' has no key 'nmae'; did you mean 'name'?",
    ),
    (
        "async def fetch(city):\n    return await get_weather(city)\nw = await fetch('Paris')\nprint(w.temp)",
        4,
        "'w' is a dict from 'get_weather', which has no attribute 'temp'; write w['temp']",
    ),
    (
        "class Box:\n    async def load(self):\n        self.rows = await list_tickets('open')\n"
        "    def titles(self):\n        return self.rows.length\nbox = Box()\nawait box.load()\nprint(box.titles())",
        5,
        "'self.rows' is a list from 'list_tickets', which has no attribute 'length'; write len(self.rows)",
    ),
    (
        "user = await get_user('a')\nprint(user.get('nmae', ''))",
        2,
        "the reply of 'get_user' has no key 'nmae'; did you mean 'name'?",
    ),
    (
        "user = await get_user('a')\nprint(user['name'] + ' earns ' + user['salary'])",
        2,
        "\"(user['name'] + ' earns ')\" is text and \"user['salary']\" is a number from 'get_user': "
        "'+' does not take them together; write str(user['salary']) or an f-string",
    ),
    (
        "temp, sky = await get_weather('Paris')",
        1,
        "\"(await get_weather('Paris'))\" is a dict from 'get_weather', of which this takes the keys; "
        "write (await get_weather('Paris'))['city'], (await get_weather('Paris'))['temp']",
    ),
    (
        "print([t['title'] for t in await list_tickets('open') if t['hours'] > '4'])",
        1,
        "\"t['hours']\" is a number from 'list_tickets' and \"'4'\" is text: '>' does not take them together; write 4",
    ),
    (
        "print([t for t in await list_tickets('open') if t['status'] == 'close'])",
        1,
        "'close' is no value from 'list_tickets'; did you mean 'closed'? there are 'open', 'closed', 'pending'",
    ),
    (
        "print([n for n in await list_orders('a') if n == '104'])",
        1,
        "a number from 'list_orders' never equals '104'; write 104",
    ),
    (
        "import time\nfrom datetime import timedelta\ntime.sleep(timedelta(seconds=1))\nprint(await count_tickets('a'))",
        3,
        "'time.sleep' takes seconds; write timedelta(seconds=1).total_seconds()",
    ),
    (
        "cities = await list_cities('DE')\nprint(await get_weather(city=cities))",
        2,
        "'get_weather' argument 'city' must be a string; 'cities' is a list from 'list_cities'; "
        "take one of its items, such as cities[0]",
    ),
    (
        "user = await get_user('a')\nprint(await get_weather(user['address']))",
        2,
        "\"user['address']\" is a dict from 'get_user', whose keys are not the arguments of 'get_weather'; "
        "write user['address']['city']",
    ),
]
LIBRARY = [
    ("import json\nprint(json.dump_string(1))", "name", "json has no 'dump_string' in {}; did you mean 'json.dumps'?"),
    ("import asyncio\nawait asyncio.all()", "name", "asyncio has no 'all' in {}; did you mean 'asyncio.gather'?"),
    ("print(math.round(2.5))", "name", "math has no 'round' in {}; did you mean 'round'?"),
    (
        "import datetime\nd = datetime.now()",
        "name",
        "datetime has no 'now' in {}; did you mean 'datetime.datetime.now'?",
    ),
    (
        "from datetime import datetime\nd = datetime.parse('x')",
        "name",
        "datetime has no 'parse' in {}; did you mean 'datetime.fromisoformat'?",
    ),
    (
        "def f():\n    from collections import Conter\n    return Conter()\nprint(f())",
        "import",
        "collections has no 'Conter' in {}; did you mean 'collections.Counter'?",
    ),
]
VERSION = f"Python {sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize(("text", "line", "message"), MISTAKES)
def test_a_use_that_the_type_of_a_value_does_not_allow_is_told_with_its_line(
    text: str, line: int, message: str
) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.line, problem.message) == (line, message)


@pytest.mark.parametrize(("text", "kind", "message"), LIBRARY)
def test_a_name_that_the_standard_library_lacks_is_told(text: str, kind: str, message: str) -> None:
    problem = CHECKER.check(text)

    assert isinstance(problem, Problem)
    assert (problem.kind, problem.message) == (kind, message.format(VERSION))


@pytest.mark.parametrize("text", PARTS[1::2], ids=PARTS[::2])
def test_a_program_whose_values_change_their_type_is_not_rejected(text: str) -> None:
    assert isinstance(CHECKER.check(text), Program)


async def test_no_tool_is_called_before_a_mistake_with_a_reply_is_told() -> None:
    def count_users(team: str) -> int:
        """How many people a team has."""
        raise AssertionError

    async with Runtime([count_users]) as runtime:
        outcome = await runtime.run("n = await count_users('a')\nfor user in n:\n    print(user)")

    assert (outcome.status, len(outcome.calls)) == ("rejected", 0)
    assert outcome.problem == Problem(
        kind="reply",
        message="'n' is a number from 'count_users', which has no items; write range(n) to count",
        line=2,
        column=13,
        source="for user in n:\n            ^",
    )


def test_a_default_for_a_key_that_no_reply_has_is_a_hint() -> None:
    program = CHECKER.check("for user in await list_users('a'):\n    print(user.get('phone', '-'))")

    assert isinstance(program, Program)
    assert program.notes == (
        "line 2: the reply of 'list_users' has no key 'phone'; it has 'id', 'name', 'team', 'email', 'age'",
    )
