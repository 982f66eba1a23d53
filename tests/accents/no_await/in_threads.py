from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(3) as pool:
    prices = list(pool.map(price, "ABC"))
print([quote["price"] for quote in prices], sorted("CAB", key=lambda ticker: price(ticker)["price"]))

# expect stdout:
# | [10, 20, 30] ['A', 'B', 'C']
# expect calls: 6
# expect hints:
# | 3 calls of 'price' ran one after another; 'await asyncio.gather(*[price(...) for ...])' runs independent calls at once
# limits: monty wasm
