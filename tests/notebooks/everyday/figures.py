# results: x, waves, drawn, hist
# %%
%matplotlib inline
import matplotlib.pyplot as plt
import numpy as np

plt.rcParams["figure.dpi"] = 50
# %%
x = np.linspace(0, 2 * np.pi, 200)
waves = {k: np.sin(k * x) / k for k in (1, 2, 3)}
# %%
fig, ax = plt.subplots(figsize=(4, 2))
for k, wave in waves.items():
    ax.plot(x, wave, label=f"{k}")
ax.legend()
drawn = len(ax.lines)
plt.show()
# %%
np.random.seed(3)
sample = np.random.normal(size=500)
hist = np.histogram(sample, bins=10)
plt.hist(sample, bins=10)
plt.title("a sample")
plt.show()
# %%
def panel(axis, k):
    axis.imshow(np.outer(waves[k], waves[k])[::10, ::10])
    axis.set_axis_off()


fig, axes = plt.subplots(1, 3, figsize=(4, 1.5))
for axis, k in zip(axes, waves):
    panel(axis, k)
plt.show()
print("figures", drawn)
