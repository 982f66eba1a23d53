from typing import Any, Optional


def pick(rows: list[dict[str, Any]], name: Optional[str] = None) -> "dict[str, Any] | None":
    for row in rows:
        if row["name"] == name:
            return row
    return None


found: dict | None = pick(await get_users(), "Bo")
print(found["id"])

# expect stdout:
# | u2
# expect calls: 1
