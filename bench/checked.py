"""How long the check of a program's text takes, over the programs that the tests run. Run by `bench.pairs_worker`.

Imports no more of toolfold than an old tree has, too.
"""

import time
from pathlib import Path

from toolfold.models import Program, ToolSpec
from toolfold.program.check import Checker

_TOOLS = {
    "get_users": (), "get_expenses": ("user_id", "quarter"), "price": ("ticker",), "add": ("a", "b"),
    "echo": ("value",), "fail": ("message",), "flaky": ("times",), "slow": ("seconds",),
    "save_profile": ("profile", "overwrite"), "json_report": (), "take_picture": (), "blob": (),
    "many_rows": ("count",), "get_weather": ("city",),
}  # fmt: skip
_DOMAINS = {"get_users": "hr", "save_profile": "hr", "get_expenses": "finance", "price": "finance"}
_PASSES = 3


class Checks:
    """The texts, and a checker that knows their tools."""

    def __init__(self) -> None:
        folder = Path(__file__).parent.parent / "tests" / "programs"
        self._texts = {path.stem: path.read_text().partition("# expect ")[0] for path in sorted(folder.glob("*.py"))}
        self._checker = Checker(tuple(_spec(name, parameters) for name, parameters in _TOOLS.items()))

    def valid(self) -> list[str]:
        """Names of the programs that this tree would run."""
        return [name for name, text in self._texts.items() if isinstance(self._checker.check(text), Program)]

    def keep(self, names: list[str]) -> None:
        """Measure these only: those that both sides would run."""
        self._texts = {name: self._texts[name] for name in names}

    def sample(self) -> float:
        """Microseconds for one text: of each the quickest of a few, for another process may have had the core."""
        return sum(map(self._quickest, self._texts.values())) / len(self._texts) * 1e6

    def _quickest(self, text: str) -> float:
        seconds = []
        for _ in range(_PASSES):
            began = time.perf_counter()
            self._checker.check(text)
            seconds.append(time.perf_counter() - began)
        return min(seconds)


def _spec(name: str, parameters: tuple[str, ...]) -> ToolSpec:
    schema = {"type": "object", "properties": {parameter: {} for parameter in parameters}}
    domain = _DOMAINS.get(name, "")
    return ToolSpec(name=name, python_name=name, domain=domain, description=f"{name}.", input_schema=schema)
