# mode auto
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
l2 = []
# ---- cell
i1 = enumerate(l2)
n1 = next(i1, -1)
i2 = iter(l2)
# ---- cell
l2.append(3)
n2 = next(i1, -1)
n3 = next(i2, -1)
# ======== kernel 2, to the end
# the same cells
