# results: series, weekly, smoothed, seasonal, forecast, anomalies
# %%
import numpy as np
import pandas as pd

np.random.seed(8)
# %%
days = pd.date_range("2023-01-01", periods=400, freq="D")
trend = np.linspace(10, 20, len(days))
series = pd.Series(trend + 3 * np.sin(2 * np.pi * np.arange(len(days)) / 7) + np.random.normal(0, 0.5, len(days)), index=days)
series.iloc[[50, 120, 300]] += 12
series.name = "load"
series.head()
# %%
weekly = series.resample("W").agg(["mean", "min", "max"]).round(4)
smoothed = series.rolling(7, center=True).median().round(6)
seasonal = (series - smoothed).groupby(series.index.day_of_week).mean().round(6)
seasonal
# %%
anomalies = []
for day, value in series.items():
    expected = smoothed.get(day)
    if pd.isna(expected):
        continue
    if abs(value - expected - seasonal[day.day_of_week]) > 6:
        anomalies.append((str(day.date()), round(float(value), 3)))
        print("odd:", day.date())
# %%
level, slope, alpha, beta = series.iloc[0], 0.0, 0.3, 0.05
for value in series.drop([pd.Timestamp(day) for day, _ in anomalies]):
    previous = level
    level = alpha * value + (1 - alpha) * (level + slope)
    slope = beta * (level - previous) + (1 - beta) * slope
forecast = [round(float(level + slope * step), 6) for step in range(1, 8)]
forecast
