if (await price("B"))["price"] > 15:
    print("dear")
else:
    print("cheap")

# expect stdout:
# | dear
# expect calls: 1
