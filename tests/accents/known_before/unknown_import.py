import torch

print(await get_users())

# expect rejected: line 1: 'torch' is not installed here; use the standard library or call a tool: get_users, get_expenses, price, add, echo, fail, ...
