print(len(get_users()), sum(e["amount"] for e in get_expenses("u1")), max(get_users(), key=lambda u: u["name"])["name"])
print(sorted(u["name"] for u in get_users()), isinstance(price("A"), dict), type(add(1, 2)) is int)

# expect stdout:
# | 3 15 Cy
# | ['Ada', 'Bo', 'Cy'] True True
# expect calls: 6
# expect hints:
# | 3 calls of 'get_users' ran one after another; 'await asyncio.gather(*[get_users(...) for ...])' runs independent calls at once
