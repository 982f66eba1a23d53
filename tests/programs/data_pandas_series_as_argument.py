import pandas as pd

await echo(pd.Series([1, 2, 3]))

# expect value: [1, 2, 3]
# expect calls: 1
# limits: monty
