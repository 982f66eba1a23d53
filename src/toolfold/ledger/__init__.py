"""Ledgers: records of executions, from which they are listed, resumed and replayed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolfold.ledger.base import (
        ExecutionFilter,
        ExecutionHistory,
        ExecutionSummary,
        Ledger,
        LedgerChange,
        Retention,
        Story,
    )
    from toolfold.ledger.open import open_ledger, rekey_ledger

__all__ = [
    "ExecutionFilter",
    "ExecutionHistory",
    "ExecutionSummary",
    "Ledger",
    "LedgerChange",
    "Retention",
    "Story",
    "open_ledger",
    "rekey_ledger",
]

_LAZY: Final = {
    "ExecutionFilter": "toolfold.ledger.base",
    "ExecutionHistory": "toolfold.ledger.base",
    "ExecutionSummary": "toolfold.ledger.base",
    "Ledger": "toolfold.ledger.base",
    "LedgerChange": "toolfold.ledger.base",
    "Retention": "toolfold.ledger.base",
    "Story": "toolfold.ledger.base",
    "open_ledger": "toolfold.ledger.open",
    "rekey_ledger": "toolfold.ledger.open",
}


# Any: the type of each name is known to mypy from the imports above. Later: stores.
def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value
