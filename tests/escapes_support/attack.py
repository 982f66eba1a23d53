"""An attack file as data: its sentence, what stops it, what its success looks like. Runs nothing.

A file of `tests/escapes` is a program with a header: a docstring of one sentence, `STOPPED_BY` (layers,
or what the host or a guest of its own has to do with it), and whatever of `Attack`'s other fields it
needs, in capitals. The rest is the attack; it prints REACHED, or `WITNESS` says what the host sees.
The runner puts `prelude.py` and the constants of `bait.py` before it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from toolfold.engines.process.zygote_launch import LAYERS, NAMESPACE, Tier

FOLDER: Final = Path(__file__).parents[1] / "escapes"
HOST_SIDE: Final = frozenset({"protocol", "collector"})
"""Not a layer around the guest but what the host does with what comes out of it."""
LINEAGE: Final = frozenset({"own process", "own descriptors", "fresh seed"})
"""What a guest does not share with the host and with other guests."""
_PRINTS_REACHED: Final = "'REACHED' in printed.split()"
_HEADER: Final = frozenset(
    {"STOPPED_BY", "WITNESS", "NEEDS_ROOT", "MAY_LACK", "LIMITS", "BEFORE", "MACHINE", "WALL_SECONDS"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One file of `tests/escapes`."""

    name: str
    says: str
    """The first line of its docstring."""
    text: str
    stopped_by: frozenset[str]
    """Off all at once, and the attack reaches its aim: that is its positive control."""
    witness: str = _PRINTS_REACHED
    """An expression over `Seen` and `SECRET` that is true when the aim was reached."""
    needs_root: bool = False
    """The control does: what it shows is refused to ordinary users by the kernel itself."""
    may_lack: str = ""
    """Why the control cannot reach the aim on some machines; it then counts as not proven, never as passed."""
    limits: dict[str, Any] = field(default_factory=dict)
    before: str = ""
    """A program that runs first, in a guest of its own; `SAME` for the attack itself."""
    machine: str = ""
    """The only kind of processor that has what it uses."""
    wall_seconds: float = 1.0

    @property
    def slowly(self) -> Attack:
        """The same with much more time, for a machine that was too busy to bring it to its end."""
        return replace(self, wall_seconds=20 * self.wall_seconds)

    @property
    def kind(self) -> str:
        """The class of attack: `files`, `kernel`, `network`, ..."""
        return self.name.partition("_")[0]

    @property
    def weakened(self) -> Tier:
        """The tier of the control: all layers but those that stop this attack."""
        return NAMESPACE.without(*(layer for layer in LAYERS if layer in self.stopped_by))


def load_attacks() -> list[Attack]:
    """All of them, by name."""
    return [_load(path) for path in sorted(FOLDER.glob("*.py"))]


def _load(path: Path) -> Attack:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    says = (ast.get_docstring(tree) or "").partition("\n")[0]
    header: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in _HEADER:
            header[node.targets[0].id.lower()] = ast.literal_eval(node.value)
    stopped_by = frozenset(header.pop("stopped_by", ()))
    unknown = stopped_by - set(LAYERS) - HOST_SIDE - LINEAGE
    if not says or not stopped_by or unknown:
        raise ValueError(f"{path.name}: needs a docstring and STOPPED_BY; unknown there: {sorted(unknown)}")
    if header.get("before") == "SAME":
        header["before"] = text
    return Attack(name=path.stem, says=says, text=text, stopped_by=stopped_by, **header)
