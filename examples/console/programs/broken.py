# Convert the totals of a region: the currency is wrong on purpose
orders = await list_orders(region="east")
euros = [await convert(amount=order["total"], currency="EUR") for order in orders[:6]]
print("in EUR:", euros)
rest = await asyncio.gather(*(convert(amount=order["total"], currency="XXX") for order in orders[6:10]))
print(sum(rest))
