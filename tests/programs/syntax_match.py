def describe(reply):
    match reply:
        case {"price": cost} if cost > 15:
            return f"dear {cost}"
        case {"price": cost}:
            return f"cheap {cost}"
        case [first, *rest]:
            return f"list of {1 + len(rest)}"
        case _:
            return "other"


print(describe(await price("A")), describe(await price("B")), describe(await get_users()), describe(None))

# expect stdout:
# | cheap 10 dear 20 list of 3 other
# expect calls: 3
