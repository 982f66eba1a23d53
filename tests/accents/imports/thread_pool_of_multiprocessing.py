from multiprocessing.pool import ThreadPool

with ThreadPool(3) as pool:
    print(pool.map(lambda t: price(t)['price'], 'ABC'))

# expect stdout:
# | [10, 20, 30]
# expect calls: 3
# limits: monty wasm
