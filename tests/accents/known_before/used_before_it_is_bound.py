print(await echo(value=answer))
answer = 42

# expect rejected: line 1: 'answer' is used before it has a value; line 2 is the first to give it one
