orders = await get_orders(user_id="u1")
print(f"{'item':<8}|{'amount':>8}")
print("-" * 17)
for order in orders:
    print(f"{order['item']:<8}|{order['amount']:>8.2f}")

# topic: output
# expect stdout:
# | item    |  amount
# | -----------------
# | pen     |    5.00
# | book    |   12.00
# | lamp    |   30.00
