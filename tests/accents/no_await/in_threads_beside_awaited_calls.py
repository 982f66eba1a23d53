import threading

found = []
threads = [threading.Thread(target=lambda: found.append(price("A")["price"])) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(found, (await price("B"))["price"])

# expect stdout:
# | [10, 10, 10] 20
# expect calls: 4
# limits: monty wasm
