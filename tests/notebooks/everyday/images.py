# results: image, noisy, smooth, edges, labels, sizes, life
# %%
import numpy as np

rng = np.random.default_rng(31)
image = np.zeros((64, 64), dtype=np.uint8)
window = image[10:30, 10:30]
window[...] = 200
image[40:55, 35:60] = 120
np.shares_memory(window, image)
# %%
noisy = np.clip(image + rng.normal(0, 15, image.shape), 0, 255).astype(np.uint8)
padded = np.pad(noisy.astype(float), 1, mode="edge")
smooth = np.zeros(image.shape)
for dy in range(3):
    for dx in range(3):
        smooth += padded[dy : dy + 64, dx : dx + 64]
smooth /= 9
# %%
gy, gx = np.gradient(smooth)
edges = np.hypot(gx, gy) > 20
print("edge pixels", int(edges.sum()))
# %%
labels = np.zeros(image.shape, dtype=int)
current = 0
for y, x in zip(*np.nonzero(smooth > 60)):
    if labels[y, x]:
        continue
    current += 1
    stack = [(int(y), int(x))]
    while stack:
        r, c = stack.pop()
        if 0 <= r < 64 and 0 <= c < 64 and smooth[r, c] > 60 and not labels[r, c]:
            labels[r, c] = current
            stack += [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]
sizes = np.bincount(labels.ravel())[1:].tolist()
sizes
# %%
life = (noisy > 128).astype(np.uint8)
for generation in range(8):
    around = sum(np.roll(np.roll(life, dy, 0), dx, 1) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - life
    life = ((around == 3) | ((life == 1) & (around == 2))).astype(np.uint8)
    print(generation, int(life.sum()))
image[0, 0] = 1
window[0, 0], life.shape
