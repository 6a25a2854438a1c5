# results: readings, top, averages, outliers
# %%
import random
import sqlite3

import pandas as pd

random.seed(5)
# %%
readings = [(f"s{n % 7}", n, round(random.gauss(20, 4), 3)) for n in range(300)]
# %%
con = sqlite3.connect(":memory:")
con.execute("create table reading (sensor text, at integer, value real)")
con.executemany("insert into reading values (?, ?, ?)", readings)
con.commit()
# %%
top = con.execute("select sensor, max(value) from reading group by sensor order by 2 desc").fetchall()
top[:2]
# %%
averages = pd.read_sql("select sensor, avg(value) as mean, count(*) as n from reading group by sensor", con)
averages.round(3)
# %%
outliers = []
for sensor, mean in averages[["sensor", "mean"]].itertuples(index=False):
    for at, value in con.execute("select at, value from reading where sensor = ? order by at", (sensor,)):
        if abs(value - mean) > 9:
            outliers.append((sensor, at, value))
print(len(outliers), "outliers")
con.execute("delete from reading where value > 25").rowcount
