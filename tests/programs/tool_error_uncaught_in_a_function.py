async def order(ticker):
    row = await price(ticker)
    return await fail(f"cannot buy {row['ticker']}")


await order("A")

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 6, in __main__
# |     await order("A")
# |   File "<program>", line 3, in order
# |     return await fail(f"cannot buy {row['ticker']}")
# | ToolError: 'fail' failed: cannot buy A
# expect calls: 2
