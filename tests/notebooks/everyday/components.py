# results: X, reduced, ratios, labels, table, inertia
# %%
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import MinMaxScaler
# %%
rng = np.random.RandomState(5)
centres = rng.uniform(-5, 5, (4, 6))
X = np.vstack([rng.normal(centre, 0.7, (60, 6)) for centre in centres])
X -= X.mean(axis=0)
# %%
scaler = MinMaxScaler()
scaled = scaler.fit_transform(X)
pca = PCA(n_components=2, svd_solver="full", random_state=0).fit(scaled)
reduced = pca.transform(scaled).round(8)
ratios = pca.explained_variance_ratio_.round(8)
print(ratios)
# %%
inertia = []
for k in range(1, 7):
    fitted = KMeans(n_clusters=k, n_init=2, random_state=k).fit(reduced)
    inertia.append(round(float(fitted.inertia_), 6))
    if k == 4:
        labels = fitted.labels_.copy()
inertia
# %%
table = pd.DataFrame(reduced, columns=["first", "second"]).assign(label=labels)
table.groupby("label").mean().round(4)
