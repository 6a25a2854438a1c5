# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
l0, l1, l2 = [], [7, 8], [1]
m0 = [l0, l1, l2]
# ---- cell
for x in m0:
    if x is l2:
        m0[2] = 5
else:
    d2
# ======== kernel 2, to the end
# the same cells
