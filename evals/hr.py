"""Employees of a company, their salaries and their leave."""

from typing import TypedDict

_NAMES = "Abel Bea Carl Dina Egon Fria Gil Hugo Ilse Jana Karl Lena Mia Nils Olga Paul Rita Sven Tara Ugo Vera Wim Xena Yara".split()
state = {
    "employees": {
        str(i + 1): {
            "id": i + 1, "name": n, "team": ("sales", "support", "research", "legal")[i * 3 % 4], "salary": 41000 + i * 3700 % 29000,
            "leave_days": i * 7 % 31, "manager_id": None if i < 4 else i % 4 + 1, "active": i % 9 != 5,
        }
        for i, n in enumerate(_NAMES)
    },
    "requests": {str(i): {"id": i, "employee_id": i * 5 % 24 + 1, "days": i * 3 % 11 + 1, "status": "pending"} for i in range(1, 13)},
}  # fmt: skip


class Employee(TypedDict):
    id: int
    name: str
    team: str
    salary: int
    leave_days: int
    manager_id: int | None
    active: bool


class LeaveRequest(TypedDict):
    id: int
    employee_id: int
    days: int
    status: str


def list_employees(team: str | None = None) -> list[int]:
    """Ids of all employees, or of a team: sales, support, research or legal."""
    return [e["id"] for e in state["employees"].values() if team in (None, e["team"])]


def get_employee(employee_id: int) -> Employee:
    """One employee; `leave_days` are those that are left."""
    if str(employee_id) not in state["employees"]:
        raise ValueError(f"no employee {employee_id}")
    return state["employees"][str(employee_id)]


def find_employee(name: str) -> int:
    """Id of the employee with this name."""
    ids = [e["id"] for e in state["employees"].values() if e["name"].lower() == name.lower()]
    if not ids:
        raise ValueError(f"no employee named {name!r}")
    return ids[0]


def export_employees() -> list[Employee]:
    """Every employee with all fields."""
    return list(state["employees"].values())


def set_salary(employee_id: int, salary: int) -> str:
    """Change a salary."""
    get_employee(employee_id)["salary"] = salary
    return "ok"


def set_team(employee_id: int, team: str) -> str:
    """Move an employee to another team."""
    get_employee(employee_id)["team"] = team
    return "ok"


def list_leave_requests(status: str = "pending") -> list[LeaveRequest]:
    """Leave requests that are pending, approved or rejected."""
    return [r for r in state["requests"].values() if r["status"] == status]


def decide_leave(request_id: int, approve: bool) -> str:
    """Approve or reject a leave request."""
    if str(request_id) not in state["requests"]:
        raise ValueError(f"no request {request_id}")
    state["requests"][str(request_id)]["status"] = "approved" if approve else "rejected"
    return state["requests"][str(request_id)]["status"]
