"""Figures of the page, for `make bench NAME=console` to put into its table."""

import json
import os


def note(name: str, value: float, limit: float, unit: str, detail: str = "") -> None:
    """Say it, and keep it where somebody collects figures."""
    figure = {"name": name, "value": value, "limit": limit, "unit": unit, "detail": detail}
    print(f"\n{name}: {value:.1f} {unit}, {'met' if value <= limit else 'MISSED'} (at most {limit:g}) {detail}")
    if path := os.environ.get("CONSOLE_FIGURES"):
        with open(path, "a") as file:
            file.write(json.dumps(figure) + "\n")
