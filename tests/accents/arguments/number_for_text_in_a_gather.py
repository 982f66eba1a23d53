import asyncio

replies = await asyncio.gather(*[translate("hello", count=c, lang=None) for c in ("1", 2, "3")])
print([reply["count"] for reply in replies])

# expect stdout:
# | [1, 2, 3]
# expect calls: 3
