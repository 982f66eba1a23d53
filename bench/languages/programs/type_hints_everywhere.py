from __future__ import annotations

from typing import Any, Optional

def best(rows: list[dict[str, Any]], key: str, default: Optional[str] = None) -> str | None:
    return max(rows, key=lambda row: row[key])["name"] if rows else default

best(await get_users(), "id")

# topic: syntax
# expect value: 'Cy'
