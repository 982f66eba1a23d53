import json

print(json.dumps({"prices": [(await get_price(ticker=ticker))["price"] for ticker in "AB"]}, indent=2))

# topic: output
# expect stdout:
# | {
# |   "prices": [
# |     10,
# |     20
# |   ]
# | }
