"""The tools of the bash programs, as plain functions; as a script, one call for the bash outside."""

import json
import sys
from typing import Any


def get_weather(city: str) -> dict[str, Any]:
    """Weather of a city."""
    return {"city": city, "temp": len(city) * 3}


def list_users() -> list[dict[str, Any]]:
    """All users."""
    return [{"name": "Ann", "age": 31}, {"name": "Bob", "age": 42}, {"name": "Cy", "age": 5}]


def echo_back(text: str) -> str:
    """The same text."""
    return text


def add(a: int | float, b: int | float) -> int | float:
    """The sum."""
    return a + b


def nothing() -> None:
    """Nothing."""


def fail() -> str:
    """Always fails."""
    raise ValueError("out of order")


TOOLS = (get_weather, list_users, echo_back, add, nothing, fail)


def main(name: str, arguments: str) -> int:
    try:
        value = {tool.__name__: tool for tool in TOOLS}[name](**json.loads(arguments or "{}"))
    except Exception as error:  # noqa: BLE001  # whatever it is, the call has failed
        print(error, file=sys.stderr)
        return 1
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = json.loads(value)
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else sys.stdin.read()))
