# results: estimates, pi, paths, price, ruin, walk
# %%
import random

import numpy as np

random.seed(2024)
np.random.seed(2024)
# %%
estimates = []
inside = total = 0
for batch in range(12):
    points = np.random.rand(2000, 2)
    inside += int((np.square(points).sum(axis=1) < 1).sum())
    total += len(points)
    estimates.append(4 * inside / total)
    if batch % 4 == 3:
        print(f"{total:6d} {estimates[-1]:.4f}")
pi = estimates[-1]
# %%
def simulate(start, drift, volatility, days, count):
    steps = np.random.normal(drift / days, volatility / np.sqrt(days), (count, days))
    return start * np.exp(np.cumsum(steps, axis=1))


paths = simulate(100.0, 0.02, 0.2, 60, 300)
price = float(np.maximum(paths[:, -1] - 105, 0).mean())
round(price, 6)
# %%
ruin = 0
games = 0
while games < 200:
    money = 10
    for _ in range(100):
        money += random.choice((-1, 1))
        if money == 0:
            ruin += 1
            break
    games += 1
ruin / games
# %%
walk = [0]
for _ in range(50):
    walk.append(walk[-1] + random.randint(-2, 2))
print(walk[-1], random.random())
