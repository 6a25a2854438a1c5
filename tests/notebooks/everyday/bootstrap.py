# results: control, treated, means, interval, p_value, state
# %%
import numpy as np

rng = np.random.default_rng(99)
control = rng.normal(10.0, 2.0, 120)
treated = rng.normal(10.7, 2.0, 110)
float(treated.mean() - control.mean())
# %%
means = np.empty(300)
for turn in range(300):
    a = rng.choice(control, len(control))
    b = rng.choice(treated, len(treated))
    means[turn] = b.mean() - a.mean()
interval = np.percentile(means, [2.5, 97.5]).round(8)
print(interval)
# %%
pooled = np.concatenate([control, treated])
observed = treated.mean() - control.mean()
extreme = 0
for turn in range(300):
    rng.shuffle(pooled)
    extreme += abs(pooled[120:].mean() - pooled[:120].mean()) >= abs(observed)
p_value = (extreme + 1) / 301
p_value
# %%
state = rng.bit_generator.state["state"]
rng.random()
