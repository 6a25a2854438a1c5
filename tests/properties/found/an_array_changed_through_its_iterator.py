# mode cells
# ======== kernel 1, killed after 8 lines
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
a0 = np.arange(4.)
# ---- cell
for x in np.nditer(a0, op_flags=['readwrite']): x[...] = x + 8
# ======== kernel 2, to the end
# the same cells
