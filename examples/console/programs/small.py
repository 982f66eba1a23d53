print(await convert(amount=12.5, currency="EUR"))
