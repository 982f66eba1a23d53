import threading

found = []
thread = threading.Thread(target=lambda: found.append(tools.price("B")["price"]))
thread.start()
thread.join()
print(found)

# expect stdout:
# | [20]
# expect calls: 1
# limits: monty
