# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
a0 = np.ma.arange(4)
i0 = np.nditer(a0.data)
# ---- cell
l0 = [int(x) for x in i0]
# ======== kernel 2, to the end
# the same cells
