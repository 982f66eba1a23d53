frame = pd.DataFrame(get_users())
rows = [price(ticker) for ticker in "ABC"]
quotes = pd.DataFrame(rows).set_index("ticker")
print(list(frame["name"]), int(quotes["price"].sum()), (await price("A"))["price"])

# expect stdout:
# | ['Ada', 'Bo', 'Cy'] 60 10
# expect calls: 5
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
# limits: monty
