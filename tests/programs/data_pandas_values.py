import pandas as pd

frame = pd.DataFrame({"team": ["a", "b", "a"], "amount": [1, 2, 4]})
twice = pd.concat([frame["amount"], frame["amount"]], axis=1)
{
    "counts": frame["team"].value_counts(),
    "sums": frame.groupby("team")["amount"].sum(),
    "described": frame["amount"].describe()["max"],
    "corr": frame[["amount"]].corr(),
    "twice": twice[:1],
    "group": frame.groupby("team"),
}

# expect value: {'counts': {'a': 2, 'b': 1}, 'sums': {'a': 5, 'b': 2}, 'described': 4.0, 'corr': [{'index': 'amount', 'amount': 1.0}], 'twice': [{'amount': 1, 'amount.1': 1}], 'group': '<pandas.api.typing.DataFrameGroupBy object>'}
# limits: monty
