import pandas as pd

days = pd.date_range("2026-01-01", periods=4, freq="D")
series = pd.Series([1.0, 2.0, 3.0, 4.0], index=days)
[series.rolling(2).mean().dropna().tolist(), series.resample("2D").sum().tolist()]

# topic: data
# expect value: [[1.5, 2.5, 3.5], [3.0, 7.0]]
