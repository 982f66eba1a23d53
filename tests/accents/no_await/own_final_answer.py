final_answer = price("A")["price"] + 1
print(final_answer)

# expect stdout:
# | 11
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'price' would do
