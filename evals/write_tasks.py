"""`python -m evals.write_tasks`: writes the task files from the prompts and reference solutions in here.

A solution is what a right run does to a service, and what it answers; the checks are made from both. Tasks are in five
kinds, four of each for every service. Which half a task is in follows from its id (`Task.half`): never look at how a
model does in the half `report` while you change what a model reads.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from toolfold.interfaces.evaluation.tasks import differences

FOLDER = Path(__file__).parent
KINDS = ("one call", "few calls", "fan-out", "large reply", "conditions")
Solution = Callable[[Any], Any]


def each(function: Callable[..., Any], items: Any) -> list[Any]:
    return [function(item) for item in items]


def best(items: Any, key: Callable[[Any], Any]) -> Any:
    """The item with the greatest value, which no other item has: else a task has two right answers."""
    ranked = sorted(items, key=key, reverse=True)
    assert key(ranked[0]) != key(ranked[1]), ranked[:2]
    return ranked[0]


def do(*values: Any) -> None:
    """Calls for their effect, without an answer to compare."""


SHOP: list[tuple[str, Solution]] = [
    ("What is the price of the kettle?", lambda s: s.get_product("kettle")["price"]),
    ("Who ordered in order 105? Give the customer's name.", lambda s: s.get_order(105)["customer"]),
    ("Restock the vase with 12 pieces.", lambda s: do(s.restock("vase", 12))),
    ("Set the price of the rug to 33.", lambda s: do(s.set_price("rug", 33))),
    ("How much do a chair and a mirror cost together?", lambda s: s.get_product("chair")["price"] + s.get_product("mirror")["price"]),
    ("What does order 103 cost in total, price times quantity?", lambda s: (o := s.get_order(103))["quantity"] * s.get_product(o["product"])["price"]),
    ("Give Ada a credit of 10 and Cole a credit of 25.", lambda s: do(s.add_credit("Ada", 10), s.add_credit("Cole", 25))),
    ("Raise the price of the mug by 5, whatever it is now.", lambda s: do(s.set_price("mug", s.get_product("mug")["price"] + 5))),
    ("How many pieces did all orders together order, as a sum of their quantities?", lambda s: sum(o["quantity"] for o in each(s.get_order, s.list_orders()))),
    ("How many orders have the status paid?", lambda s: sum(o["status"] == "paid" for o in each(s.get_order, s.list_orders()))),
    ("Cancel every order of Ada that is not shipped.", lambda s: do(*[s.cancel_order(i) for i in s.list_orders("Ada") if s.get_order(i)["status"] != "shipped"])),
    ("Lower the price of every product of the category kitchen by 1.", lambda s: do(*[s.set_price(p["name"], p["price"] - 1) for p in s.list_products("kitchen")])),
    ("What is the value of the whole stock, price times stock of all products?", lambda s: sum(p["price"] * p["stock"] for p in s.list_products())),
    ("Which product is the most expensive?", lambda s: best(s.list_products(), key=lambda p: p["price"])["name"]),
    ("How many products have a stock below 5?", lambda s: sum(p["stock"] < 5 for p in s.list_products())),
    ("What is the average price of the products of the category office, to two decimals?", lambda s: round(sum(p["price"] for p in s.list_products("office")) / len(s.list_products("office")), 2)),
    ("If the stock of the lamp is below 5, restock it with 20 pieces; else set its price to 9.", lambda s: do(s.restock("lamp", 20) if s.get_product("lamp")["stock"] < 5 else s.set_price("lamp", 9))),
    ("Restock every product that has a stock of 0 with 10 pieces.", lambda s: do(*[s.restock(p["name"], 10) for p in s.list_products() if p["stock"] == 0])),
    ("Cancel order 104 unless it is shipped; if it is shipped, give its customer a credit of 15 instead.", lambda s: do(s.add_credit(s.get_order(104)["customer"], 15) if s.get_order(104)["status"] == "shipped" else s.cancel_order(104))),
    ("Give the customer who ordered the most pieces in all orders together a credit of 50.", lambda s: do(s.add_credit(best(s.state["credits"], key=lambda c: sum(s.get_order(i)["quantity"] for i in s.list_orders(c))), 50))),
]  # fmt: skip

CALENDAR: list[tuple[str, Solution]] = [
    ("In which room is event 7?", lambda s: s.get_event(7)["room"]),
    ("Delete event 12.", lambda s: do(s.delete_event(12))),
    ("Move event 4 to friday at 15.", lambda s: do(s.move_event(4, "fri", 15))),
    ("On which days is Ema away?", lambda s: s.get_days_away("Ema")),
    ("How many minutes do events 3 and 8 take together?", lambda s: s.get_event(3)["minutes"] + s.get_event(8)["minutes"]),
    ("Move event 9 to the day and the hour of event 10.", lambda s: do(s.move_event(9, s.get_event(10)["day"], s.get_event(10)["hour"]))),
    ("Send a message to Ana and one to Hana, saying that lunch is at noon.", lambda s: do(s.send_message("Ana", ""), s.send_message("Hana", ""))),
    ("Who owns event 15, and who owns event 16?", lambda s: [s.get_event(15)["owner"], s.get_event(16)["owner"]]),
    ("How many minutes do all events of all people take together, on all days?", lambda s: sum(e["minutes"] for e in s.list_events())),
    ("Send every person one message saying that the office is closed.", lambda s: do(*each(lambda p: s.send_message(p, ""), s.list_people()))),
    ("Delete all events of Dev.", lambda s: do(*[s.delete_event(e["id"]) for e in [*s.list_events(owner="Dev")]])),
    ("How many people are away on at least one day?", lambda s: sum(bool(s.get_days_away(p)) for p in s.list_people())),
    ("How many events are in the room blue?", lambda s: sum(e["room"] == "blue" for e in s.list_events())),
    ("Which event is the last of thursday (thu)? Give its title.", lambda s: best(s.list_events(day="thu"), key=lambda e: e["hour"])["title"]),
    ("How many events begin at 12 or later?", lambda s: sum(e["hour"] >= 12 for e in s.list_events())),
    ("What is the title of the event with the highest id on thursday (thu)?", lambda s: best(s.list_events(day="thu"), key=lambda e: e["id"])["title"]),
    ("If Ben is away on tuesday, move event 1 to wednesday at 10; else delete event 1.", lambda s: do(s.move_event(1, "wed", 10) if "tue" in s.get_days_away("Ben") else s.delete_event(1))),
    ("Move each monday (mon) event that begins at 14 or later to tuesday, at the same hour.", lambda s: do(*[s.move_event(e["id"], "tue", e["hour"]) for e in s.list_events(day="mon") if e["hour"] >= 14])),
    ("Send a message to the owner of every event on friday (fri) that takes more than 30 minutes, one for each event.", lambda s: do(*[s.send_message(e["owner"], "") for e in s.list_events(day="fri") if e["minutes"] > 30])),
    ("Create an event named sync for Gus on the first day of the week (mon to fri) on which he has no event, at 9.", lambda s: do(s.create_event("sync", next(d for d in ("mon", "tue", "wed", "thu", "fri") if not s.list_events(day=d, owner="Gus")), 9, "Gus"))),
]  # fmt: skip

TICKETS: list[tuple[str, Solution]] = [
    ("What is the topic of ticket 17?", lambda s: s.get_ticket(17)["topic"]),
    ("Close ticket 9.", lambda s: do(s.set_status(9, "closed"))),
    ("Assign ticket 8 to Lea.", lambda s: do(s.assign_ticket(8, "Lea"))),
    ("Comment on ticket 21 that we are on it.", lambda s: do(s.add_comment(21, ""))),
    ("Give ticket 5 the priority that ticket 6 has.", lambda s: do(s.set_priority(5, s.get_ticket(6)["priority"]))),
    ("Assign ticket 12 to Mo and set its status to open.", lambda s: do(s.assign_ticket(12, "Mo"), s.set_status(12, "open"))),
    ("Which of the tickets 14 and 15 is older? Give its age in days.", lambda s: max(s.get_ticket(i)["age_days"] for i in (14, 15))),
    ("How many open tickets are there about login, and how many about email?", lambda s: [str(len(s.search_tickets(status="open", topic=t))) for t in ("login", "email")]),
    ("What is the sum of the ages in days of all tickets about billing?", lambda s: sum(t["age_days"] for t in each(s.get_ticket, s.search_tickets(topic="billing")))),
    ("Set the priority of every open ticket about printer to 2.", lambda s: do(*[s.set_priority(i, 2) for i in s.search_tickets(status="open", topic="printer")])),
    ("How many comments do all waiting tickets have together?", lambda s: sum(t["comments"] for t in each(s.get_ticket, s.search_tickets(status="waiting")))),
    ("Assign all tickets about network to Kai.", lambda s: do(*[s.assign_ticket(i, "Kai") for i in s.search_tickets(topic="network")])),
    ("How many tickets have no agent?", lambda s: sum(t["agent"] is None for t in s.export_tickets())),
    ("What is the average age in days of all tickets, to two decimals?", lambda s: round(sum(t["age_days"] for t in s.export_tickets()) / len(s.export_tickets()), 2)),
    ("What is the id of the oldest ticket that is not closed?", lambda s: best((t for t in s.export_tickets() if t["status"] != "closed"), key=lambda t: t["age_days"])["id"]),
    ("How many tickets have the priority 1?", lambda s: sum(t["priority"] == 1 for t in s.export_tickets())),
    ("If ticket 3 is closed, open it; else assign it to Iris.", lambda s: do(s.set_status(3, "open") if s.get_ticket(3)["status"] == "closed" else s.assign_ticket(3, "Iris"))),
    ("Close every waiting ticket that is older than 20 days.", lambda s: do(*[s.set_status(i, "closed") for i in s.search_tickets(status="waiting") if s.get_ticket(i)["age_days"] > 20])),
    ("Assign every open ticket that has no agent to Jon.", lambda s: do(*[s.assign_ticket(i, "Jon") for i in s.search_tickets(status="open") if s.get_ticket(i)["agent"] is None])),
    ("Find the agent with the most tickets that are waiting or open, and move that agent's open tickets that are older than 5 days to Mo.", lambda s: do(*[s.assign_ticket(i, "Mo") for i in s.search_tickets(status="open", agent=best(s.list_agents(), key=lambda a: len(s.search_tickets(status="open", agent=a)) + len(s.search_tickets(status="waiting", agent=a)))) if s.get_ticket(i)["age_days"] > 5])),
]  # fmt: skip

FILES: list[tuple[str, Solution]] = [
    ("Which port is in config/db.ini?", lambda s: 5432),
    ("Delete the file notes/beta.txt.", lambda s: do(s.delete_file("notes/beta.txt"))),
    ("Rename todo.txt to tasks.txt.", lambda s: do(s.move_file("todo.txt", "tasks.txt"))),
    ("Write the text hello into the file greeting.txt.", lambda s: do(s.write_file("greeting.txt", "hello"))),
    ("What do notes/alpha.txt and notes/gamma.txt say they cost? Give the sum in euros.", lambda s: sum(cost(s, f"notes/{n}.txt") for n in ("alpha", "gamma"))),
    ("Copy config/app.ini to config/app.bak.", lambda s: do(s.write_file("config/app.bak", s.read_file("config/app.ini")))),
    ("Who owns notes/zeta.txt, and who owns notes/eta.txt?", lambda s: [s.read_file(f"notes/{n}.txt").split("owner: ")[1].split("\n")[0] for n in ("zeta", "eta")]),
    ("Move notes/iota.txt and notes/kappa.txt into the folder archive, with the same names.", lambda s: do(*[s.move_file(f"notes/{n}.txt", f"archive/{n}.txt") for n in ("iota", "kappa")])),
    ("How many characters do all files in the folder notes have together?", lambda s: sum(map(s.file_size, s.list_files("notes")))),
    ("How many of the files in the folder notes have the status draft?", lambda s: sum("status: draft" in s.read_file(p) for p in s.list_files("notes"))),
    ("What do all files in notes cost together, in euros?", lambda s: sum(cost(s, p) for p in s.list_files("notes"))),
    ("Delete every file in the folder config.", lambda s: do(*each(s.delete_file, s.list_files("config")))),
    ("How many lines with ERROR are in logs/day3.log?", lambda s: s.read_file("logs/day3.log").count("ERROR")),
    ("How many lines with ERROR are in all files of the folder logs together?", lambda s: sum(s.read_file(p).count("ERROR") for p in s.list_files("logs"))),
    ("Which file in the folder logs has the fewest lines with ERROR? Give its name.", lambda s: best(s.list_files("logs"), key=lambda p: -s.read_file(p).count("ERROR")).split("/")[1]),
    ("How many lines with INFO are in logs/day1.log and logs/day2.log together?", lambda s: sum(s.read_file(f"logs/day{i}.log").count("INFO") for i in (1, 2))),
    ("If config/app.ini says debug=true, delete todo.txt; else delete config/app.ini.", lambda s: do(s.delete_file("todo.txt" if "debug=true" in s.read_file("config/app.ini") else "config/app.ini"))),
    ("Delete all files in notes whose status is done.", lambda s: do(*[s.delete_file(p) for p in s.list_files("notes") if "status: done" in s.read_file(p)])),
    ("Move every file of notes that Pia owns to the folder pia, with the same name.", lambda s: do(*[s.move_file(p, p.replace("notes", "pia")) for p in s.list_files("notes") if "owner: Pia" in s.read_file(p)])),
    ("Delete the log files in the folder logs that have no line with ERROR.", lambda s: do(*[s.delete_file(p) for p in s.list_files("logs") if "ERROR" not in s.read_file(p)])),
]  # fmt: skip


def cost(s: Any, path: str) -> int:
    return int(s.read_file(path).split(" costs ")[1].split()[0])


HR: list[tuple[str, Solution]] = [
    ("What is the salary of employee 7?", lambda s: s.get_employee(7)["salary"]),
    ("Approve leave request 4.", lambda s: do(s.decide_leave(4, True))),
    ("Set the salary of employee 12 to 52000.", lambda s: do(s.set_salary(12, 52000))),
    ("Move employee 20 to the team legal.", lambda s: do(s.set_team(20, "legal"))),
    ("In which team is Karl?", lambda s: s.get_employee(s.find_employee("Karl"))["team"]),
    ("Raise the salary of Tara by 1500.", lambda s: do(s.set_salary(s.find_employee("Tara"), s.get_employee(s.find_employee("Tara"))["salary"] + 1500))),
    ("Who is the manager of employee 15? Give the name.", lambda s: s.get_employee(s.get_employee(15)["manager_id"])["name"]),
    ("Reject leave requests 2 and 3.", lambda s: do(s.decide_leave(2, False), s.decide_leave(3, False))),
    ("What do all employees of the team sales earn together?", lambda s: sum(e["salary"] for e in each(s.get_employee, s.list_employees("sales")))),
    ("How many leave days are left in the team support, all its employees together?", lambda s: sum(e["leave_days"] for e in each(s.get_employee, s.list_employees("support")))),
    ("Raise the salary of every employee of the team legal by 1000.", lambda s: do(*[s.set_salary(i, s.get_employee(i)["salary"] + 1000) for i in s.list_employees("legal")])),
    ("Approve all pending leave requests.", lambda s: do(*[s.decide_leave(r["id"], True) for r in s.list_leave_requests()])),
    ("What is the average salary of all employees, to two decimals?", lambda s: round(sum(e["salary"] for e in s.export_employees()) / len(s.export_employees()), 2)),
    ("Who has the highest salary? Give the name.", lambda s: best(s.export_employees(), key=lambda e: e["salary"])["name"]),
    ("How many employees are not active?", lambda s: sum(not e["active"] for e in s.export_employees())),
    ("How many employees have more than 20 leave days left?", lambda s: sum(e["leave_days"] > 20 for e in s.export_employees())),
    ("If employee 6 is not active, set their salary to 0; else move them to the team research.", lambda s: do(s.set_team(6, "research") if s.get_employee(6)["active"] else s.set_salary(6, 0))),
    ("Approve the pending leave requests whose employee has enough leave days left, and reject the others.", lambda s: do(*[s.decide_leave(r["id"], s.get_employee(r["employee_id"])["leave_days"] >= r["days"]) for r in s.list_leave_requests()])),
    ("Raise every salary in the team research that is below 50000 to 50000.", lambda s: do(*[s.set_salary(i, 50000) for i in s.list_employees("research") if s.get_employee(i)["salary"] < 50000])),
    ("Move all employees whose manager is employee 2 to the team sales, unless they are in it already.", lambda s: do(*[s.set_team(e["id"], "sales") for e in s.export_employees() if e["manager_id"] == 2 and e["team"] != "sales"])),
]  # fmt: skip

FINANCE: list[tuple[str, Solution]] = [
    ("What is the balance of account A5?", lambda s: s.get_account("A5")["balance"]),
    ("Freeze account A3.", lambda s: do(s.freeze_account("A3"))),
    ("Transfer 50 from account A1 to account A2.", lambda s: do(s.transfer("A1", "A2", 50))),
    ("Mark invoice 11 as paid.", lambda s: do(s.mark_paid(11))),
    ("What is the sum of the balances of A6 and A7?", lambda s: s.get_account("A6")["balance"] + s.get_account("A7")["balance"]),
    ("Send reminders for invoices 4 and 10.", lambda s: do(s.send_reminder(4), s.send_reminder(10))),
    ("Who are the clients of invoice 2 and of invoice 9?", lambda s: [s.get_invoice(2)["client"], s.get_invoice(9)["client"]]),
    ("Unfreeze account A4 and then transfer 20 from it to A1.", lambda s: do(s.freeze_account("A4", False), s.transfer("A4", "A1", 20))),
    ("What is the sum of all balances of all accounts?", lambda s: sum(s.get_account(a)["balance"] for a in s.list_accounts())),
    ("What is the sum of the amounts of all unpaid invoices?", lambda s: sum(s.get_invoice(i)["amount"] for i in s.list_invoices(paid=False))),
    ("Send a reminder for every unpaid invoice of Bolt.", lambda s: do(*each(s.send_reminder, s.list_invoices("Bolt", False)))),
    ("How many accounts are frozen?", lambda s: sum(s.get_account(a)["frozen"] for a in s.list_accounts())),
    ("What is the sum of the amounts of all transactions?", lambda s: sum(t["amount"] for t in s.list_transactions())),
    ("How many transactions have the label refund?", lambda s: sum(t["label"] == "refund" for t in s.list_transactions())),
    ("What is the id of the transaction with the largest amount?", lambda s: best(s.list_transactions(), key=lambda t: t["amount"])["id"]),
    ("For which account is the sum of its transactions the largest?", lambda s: best(s.list_accounts(), key=lambda a: sum(t["amount"] for t in s.list_transactions() if t["account"] == a))),
    ("If account A8 has a balance of at least 1000, transfer 100 from it to A1; else freeze it.", lambda s: do(s.transfer("A8", "A1", 100) if s.get_account("A8")["balance"] >= 1000 else s.freeze_account("A8"))),
    ("Send a reminder for every unpaid invoice with an amount above 500.", lambda s: do(*[s.send_reminder(i) for i in s.list_invoices(paid=False) if s.get_invoice(i)["amount"] > 500])),
    ("Freeze every account with a balance below 800 that is not frozen yet.", lambda s: do(*[s.freeze_account(a) for a in s.list_accounts() if s.get_account(a)["balance"] < 800 and not s.get_account(a)["frozen"]])),
    ("Mark the unpaid invoices of Core that are due before day 30 as paid, and send a reminder for its other unpaid ones.", lambda s: do(*[s.mark_paid(i) if s.get_invoice(i)["due_day"] < 30 else s.send_reminder(i) for i in s.list_invoices("Core", False)])),
]  # fmt: skip

SETS = {"shop": SHOP, "calendar_service": CALENDAR, "tickets": TICKETS, "files": FILES, "hr": HR, "finance": FINANCE}


def file_text(service: str) -> str:
    """The task file of a service."""
    tasks = []
    for number, (prompt, solution) in enumerate(SETS[service]):
        module = importlib.reload(importlib.import_module(f"evals.{service}"))
        before = copy.deepcopy(module.state)
        answer = solution(module)
        checks: dict[str, Any] = {"changes": differences(before, module.state)}
        if answer is not None:
            checks["answer"] = {"number": answer} if isinstance(answer, int | float) else {
                "contains": [answer] if isinstance(answer, str) else answer
            }  # fmt: skip
        kind = KINDS[number // 4]
        name = f"{service.partition('_')[0]}-{number + 1:02}"
        limit = {"max_requests": 30} if kind in ("fan-out", "conditions") else {}
        tasks.append({"id": name, "kind": kind, "prompt": prompt, "checks": checks, **limit})
    return yaml.safe_dump({"tools": f"{service}.py", "tasks": tasks}, sort_keys=False, width=110, allow_unicode=True)


def main() -> None:
    for service in SETS:
        (FOLDER / f"{service}.yaml").write_text(file_text(service), encoding="utf-8")


if __name__ == "__main__":
    main()
