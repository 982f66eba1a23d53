import pandas as pd

frame = pd.DataFrame({"day": ["mon", "mon", "tue"], "kind": ["x", "y", "x"], "n": [1, 2, 3]})
table = frame.pivot_table(index="day", columns="kind", values="n", aggfunc="sum", fill_value=0)
[table.loc["mon"].tolist(), float(frame["n"].describe()["mean"])]

# topic: data
# expect value: [[1, 2], 2.0]
