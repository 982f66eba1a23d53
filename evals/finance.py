"""Accounts, invoices and payments of a small firm."""

_CLIENTS = "Acme Bolt Core Dune Echo Flux".split()
state = {
    "accounts": {f"A{i}": {"id": f"A{i}", "owner": _CLIENTS[i % 6], "balance": 250 + i * 377 % 1900, "frozen": i % 5 == 4} for i in range(1, 13)},
    "invoices": {
        str(i): {"id": i, "client": _CLIENTS[i * 5 % 6], "amount": 120 + i * 83 % 640, "due_day": i * 9 % 60 + 1, "paid": i % 3 == 0}
        for i in range(1, 25)
    },
    "transactions": [{"id": i, "account": f"A{i * 5 % 12 + 1}", "amount": (i * 47 % 300) - 90, "label": ("rent", "fee", "sale", "refund")[i % 4]} for i in range(1, 61)],
    "reminders": {},
}  # fmt: skip


def list_accounts() -> list[str]:
    """Ids of all accounts."""
    return list(state["accounts"])


def get_account(account_id: str) -> dict:
    """One account: id, owner, balance, and whether it is frozen."""
    if account_id not in state["accounts"]:
        raise ValueError(f"no account {account_id!r}")
    return state["accounts"][account_id]


def list_invoices(client: str | None = None, paid: bool | None = None) -> list[int]:
    """Ids of the invoices that match; without arguments of all."""
    return [i["id"] for i in state["invoices"].values() if client in (None, i["client"]) and paid in (None, i["paid"])]


def get_invoice(invoice_id: int) -> dict:
    """One invoice: id, client, amount, due_day, and whether it is paid."""
    if str(invoice_id) not in state["invoices"]:
        raise ValueError(f"no invoice {invoice_id}")
    return state["invoices"][str(invoice_id)]


def list_transactions() -> list[dict]:
    """All transactions: id, account, amount and label (rent, fee, sale or refund)."""
    return state["transactions"]


def transfer(from_account: str, to_account: str, amount: int) -> str:
    """Move money between two accounts."""
    source, target = get_account(from_account), get_account(to_account)
    if source["frozen"] or target["frozen"] or source["balance"] < amount:
        raise ValueError("an account is frozen, or the balance is too small")
    source["balance"] -= amount
    target["balance"] += amount
    return "transferred"


def mark_paid(invoice_id: int) -> str:
    """Mark an invoice as paid."""
    get_invoice(invoice_id)["paid"] = True
    return "paid"


def freeze_account(account_id: str, frozen: bool = True) -> str:
    """Freeze an account, or unfreeze it."""
    get_account(account_id)["frozen"] = frozen
    return "frozen" if frozen else "open"


def send_reminder(invoice_id: int) -> str:
    """Remind the client of an unpaid invoice."""
    get_invoice(invoice_id)
    state["reminders"][str(invoice_id)] = state["reminders"].get(str(invoice_id), 0) + 1
    return "sent"
