# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
def make(k):
    def inner(v):
        nonlocal k
        k += v
        return k
    return inner
# ---- cell
g1 = make(1)
# ---- cell
g2 = g1
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
def make(k):
    def inner(v):
        nonlocal k
        k += v
        return k
    return inner
# ---- cell
g1 = make(1)
# ---- cell
g2 = g1
# ---- cell
n1 = g1(5)
n2 = g2(0)
