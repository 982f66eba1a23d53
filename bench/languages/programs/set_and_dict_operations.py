core = {user["name"] for user in await get_users() if user["team"] == "core"}
others = {"Bo", "Cy"}
[sorted(core | others), sorted(core & others), sorted(core - others), {"a": 1} | {"b": 2}]

# topic: syntax
# expect value: [['Ada', 'Bo', 'Cy'], ['Cy'], ['Ada'], {'a': 1, 'b': 2}]
