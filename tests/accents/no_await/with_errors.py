for ticker in "AX":
    try:
        quote = price(ticker)
        print(quote["price"])
    except ToolError as error:
        print("no price:", str(error).partition(":")[0])

# expect stdout:
# | 10
# | no price: 'price' failed
# expect calls: 2
