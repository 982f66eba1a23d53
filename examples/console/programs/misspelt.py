orders = await list_order(region="north")
print(len(orders))
