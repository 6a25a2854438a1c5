# needs: polars
# results: shape, by_city, wide, kept, running
# %%
import random

import polars as pl

random.seed(21)
frame = pl.DataFrame(
    {
        "city": [random.choice(["Rome", "Oslo", "Lima"]) for _ in range(500)],
        "year": [random.randint(2019, 2023) for _ in range(500)],
        "rain": [round(random.uniform(0, 90), 2) for _ in range(500)],
    }
)
shape = frame.shape
frame.head(3)
# %%
by_city = frame.group_by("city").agg(pl.col("rain").mean().round(4), pl.len().alias("n")).sort("city").to_dicts()
by_city
# %%
wide = frame.pivot(on="city", index="year", values="rain", aggregate_function="max").sort("year")
wide = wide.select(sorted(wide.columns)).to_dicts()
# %%
kept = 0
running = []
for row in frame.filter(pl.col("rain") > 60).iter_rows(named=True):
    kept += 1
    running.append(round(row["rain"] + (running[-1] if running else 0), 4))
print(kept, running[-1])
