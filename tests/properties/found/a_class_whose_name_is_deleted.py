# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
class Box:
    def __init__(self, n):
        self.n = n
o0 = Box(1)
o1 = Box(2)
del Box
# ---- cell
o0.n = 5
v2 = type(o0)
# ---- cell
v3 = isinstance(o1, v2)
v4 = type(o0) is type(o1)
# ======== kernel 2, to the end
# the same cells
