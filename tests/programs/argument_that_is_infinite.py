try:
    await echo([1.5, float("inf")])
except TypeError as error:
    print(error)
try:
    await echo({"a": {1: "a", "1": "b"}})
except TypeError as error:
    print(error)

# expect stdout:
# | echo argument ['value'][1] is infinite, which JSON has no number for; send None or text
# | echo argument ['value']['a'] has two keys that are both '1' as text; make them different first
