rows = await get_expenses("u1", 2)
{"total": sum(row["amount"] for row in rows), "rows": len(rows)}

# expect value: {'total': 25, 'rows': 2}
# expect calls: 1
