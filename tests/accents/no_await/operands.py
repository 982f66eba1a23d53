total = add(1, 2) + add(3, 4) * 2
print(total, add(1, 1) > 1, not add(0, 0), -add(2, 3), "x" * add(1, 2))

# expect stdout:
# | 17 True True -5 xxx
# expect calls: 6
# expect hints:
# | 6 calls of 'add' ran one after another; 'await asyncio.gather(*[add(...) for ...])' runs independent calls at once
