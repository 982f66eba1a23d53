steps = []
for value in ["7", "x"]:
    try:
        number = int(value)
    except ValueError as error:
        steps.append(type(error).__name__)
    else:
        steps.append(number)
    finally:
        steps.append("done")
steps

# topic: syntax
# expect value: [7, 'done', 'ValueError', 'done']
