import copy
import pickle

name, quote = json_report(), price("A")
held = [quote]
print(copy.deepcopy(held), pickle.loads(pickle.dumps(held)), {add(1, 2): "three"}[3], 3 in {add(1, 2)}, list(name))
match quote:
    case {"price": cost}:
        print(cost, await add(1, 1))

# expect stdout:
# | [{'ticker': 'A', 'price': 10}] [{'ticker': 'A', 'price': 10}] three True ['rows']
# | 10 2
# expect calls: 5
# limits: monty
