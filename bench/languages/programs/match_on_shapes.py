def describe(reply):
    match reply:
        case {"price": price} if price > 15:
            return f"dear {price}"
        case {"price": price}:
            return f"cheap {price}"
        case [first, *rest]:
            return f"list of {1 + len(rest)}"
        case str() | int():
            return "plain"
        case _:
            return "other"

[describe(await get_price(ticker="A")), describe(await get_price(ticker="B")), describe([1, 2]), describe("x"), describe(None)]

# topic: syntax
# expect value: ['cheap 10', 'dear 20', 'list of 2', 'plain', 'other']
