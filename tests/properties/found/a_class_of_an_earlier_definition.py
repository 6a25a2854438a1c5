# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
import collections
# ---- cell
class Box:
    def __init__(self, n):
        self.n = n
o0 = Box(1)
# ---- cell
class Box:
    def __init__(self, n):
        self.n = n + 1
v2 = type(o0)
v3 = [v2]

v5 = isinstance(o0, v2)
# ======== kernel 2, to the end
# the same cells
