rows = await asyncio.gather(*[get_expenses(user_id=u, quarter=2) for u in ["u1", "u2", "u3"]])
print(sum(r["amount"] for one in rows for r in one))

# expect stdout:
# | 75
# expect calls: 3
