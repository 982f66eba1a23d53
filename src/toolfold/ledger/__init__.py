"""Ledgers: records of executions, from which they are listed, resumed and replayed."""

from typing import TYPE_CHECKING

from toolfold.lazy_exports import lazy_exports

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
    from toolfold.ledger.ledger_factory import open_ledger, rekey_ledger

__all__ = [
    "ExecutionFilter", "ExecutionHistory", "ExecutionSummary", "Ledger", "LedgerChange", "Retention", "Story",
    "open_ledger", "rekey_ledger",
]  # fmt: skip

__getattr__ = lazy_exports(
    __name__,
    {"ExecutionFilter": "toolfold.ledger.base", "ExecutionHistory": "toolfold.ledger.base",
     "ExecutionSummary": "toolfold.ledger.base", "Ledger": "toolfold.ledger.base",
     "LedgerChange": "toolfold.ledger.base", "Retention": "toolfold.ledger.base", "Story": "toolfold.ledger.base",
     "open_ledger": "toolfold.ledger.ledger_factory", "rekey_ledger": "toolfold.ledger.ledger_factory"},
)  # fmt: skip
