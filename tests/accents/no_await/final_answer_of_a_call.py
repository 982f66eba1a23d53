def solve():
    try:
        final_answer(answer=price("A"))
    except Exception as error:
        print(error)


solve()

# expect value: {'ticker': 'A', 'price': 10}
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'price' would do
# limits: monty
