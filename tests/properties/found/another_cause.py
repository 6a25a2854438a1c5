# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
v0 = ValueError(1)
# ---- cell
for n0 in range(3):
    v0.__cause__ = TypeError(n0)
# ======== kernel 2, to the end
# the same cells
