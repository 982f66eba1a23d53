def poem():
    return """
roses
	are red
    """


print(repr(poem()))

# expect stdout:
# | '\nroses\n\tare red\n    '
