# results: orders, customers, joined, monthly, by_region, best, cleaned_rows
# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(42)
# %%
n = 4000
orders = pd.DataFrame(
    {
        "order_id": np.arange(n),
        "customer": rng.integers(0, 200, n),
        "amount": rng.gamma(2.0, 40.0, n).round(2),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D"),
        "channel": rng.choice(["web", "shop", "phone"], n, p=[0.6, 0.3, 0.1]),
    }
)
orders.loc[rng.choice(n, 60, replace=False), "amount"] = np.nan
customers = pd.DataFrame(
    {
        "customer": range(200),
        "region": rng.choice(["north", "south", "east", "west"], 200),
        "since": rng.integers(2010, 2024, 200),
    }
)
orders.head()
# %%
cleaned_rows = int(orders["amount"].isna().sum())
orders["amount"] = orders["amount"].fillna(orders.groupby("channel")["amount"].transform("median"))
orders["month"] = orders["day"].dt.to_period("M").astype(str)
print("filled", cleaned_rows)
# %%
joined = orders.merge(customers, on="customer", how="left", validate="many_to_one")
joined["channel"] = joined["channel"].astype("category")
joined.dtypes
# %%
monthly = joined.pivot_table(index="month", columns="region", values="amount", aggfunc="sum").round(2)
monthly.tail(3)
# %%
by_region = joined.groupby(["region", "channel"], observed=True)["amount"].agg(["count", "mean", "max"]).round(3)
best = {}
for region, part in joined.groupby("region"):
    best[region] = int(part.groupby("customer")["amount"].sum().idxmax())
    print(region, best[region])
by_region.query("count > 100")
