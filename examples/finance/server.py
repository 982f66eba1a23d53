"""An MCP server with made-up quarterly figures: `query_financials` and `stock_quote`.

With `FINANCE_UPSTREAM=HOST:PORT` the figures are asked for there first, so that a broken data source
can be seen: nothing listens, and the tool fails with "connection refused".
"""

import os
import socket
from typing import Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, ToolAnnotations

REVENUES: dict[str, list[float]] = {
    "AMZN": [170.0e9, 165.3e9, 158.9e9, 149.2e9, 147.4e9, 143.3e9],
    "MSFT": [65.6e9, 62.0e9, 59.1e9, 56.5e9, 56.2e9, 52.9e9],
    "GOOG": [96.5e9, 88.3e9, 85.0e9, 80.5e9, 76.7e9, 74.6e9],
}
PRICES: dict[str, float] = {"AMZN": 201.5, "MSFT": 424.0, "GOOG": 178.2}
QUARTERS = ["2024-Q4", "2024-Q3", "2024-Q2", "2024-Q1", "2023-Q4", "2023-Q3"]

server = MCPServer("financial-data", instructions="Quarterly figures of three companies. All of them are made up.")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def query_financials(
    ticker: str,
    statement: Literal["income", "balance", "cashflow"] = "income",
    period: Literal["quarter", "year"] = "quarter",
    limit: int = 4,
) -> list[dict[str, Any]]:
    """Statements of one company, newest first, each with its revenue in dollars."""
    _reach_upstream()
    if ticker not in REVENUES:
        raise MCPError(INVALID_PARAMS, f"no company {ticker!r}; known are {', '.join(REVENUES)}")
    figures = list(zip(QUARTERS, REVENUES[ticker], strict=True))
    if period == "year":
        figures = [("2024", sum(revenue for quarter, revenue in figures if quarter.startswith("2024")))]
    return [
        {"ticker": ticker, "statement": statement, "period": when, "revenue": revenue, "currency": "USD"}
        for when, revenue in figures[:limit]
    ]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def stock_quote(ticker: str) -> dict[str, Any]:
    """The latest price of one company's share."""
    _reach_upstream()
    if ticker not in PRICES:
        raise MCPError(INVALID_PARAMS, f"no company {ticker!r}; known are {', '.join(PRICES)}")
    return {"ticker": ticker, "price": PRICES[ticker], "currency": "USD"}


def _reach_upstream() -> None:
    host, _, port = os.environ.get("FINANCE_UPSTREAM", "").rpartition(":")
    if port:
        try:
            socket.create_connection((host, int(port)), timeout=2).close()
        except ConnectionRefusedError:
            raise MCPError(INTERNAL_ERROR, "connection refused") from None


if __name__ == "__main__":
    server.run()
