# results: points, centres, labels, moves, sizes
# %%
import numpy as np

np.random.seed(19)
points = np.concatenate([np.random.normal(c, 0.6, (80, 2)) for c in ((0, 0), (4, 1), (1, 5))])
centres = points[np.random.choice(len(points), 3, replace=False)].copy()
# %%
moves, turn = [], 0
while True:
    distance = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
    labels = distance.argmin(axis=1)
    updated = np.array([points[labels == k].mean(axis=0) if (labels == k).any() else centres[k] for k in range(3)])
    moves.append(float(np.abs(updated - centres).max()))
    centres[...] = updated
    turn += 1
    if moves[-1] < 1e-9 or turn > 50:
        break
else:
    print("never")
print("turns", turn)
# %%
sizes = np.bincount(labels).tolist()
sizes
# %%
silhouette = []
for k in range(3):
    own, other = points[labels == k], points[labels != k]
    if not len(own):
        continue
    silhouette.append(round(float(np.linalg.norm(own - centres[k], axis=1).mean()), 6))
silhouette
