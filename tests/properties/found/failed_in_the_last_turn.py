# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
l0 = [4, 8]
l1 = l0
d2 = {'a': l1, 'b': 7}
a1 = np.arange(4.)
# ---- cell
for n0 in range(5):
    for x in a1.ravel()[:5]:
        for x in d2:
            if n0 % 3 == 6:
                break
            del n0
        np.random.seed(0)
    n1 = g0(2)
# ======== kernel 2, to the end
# the same cells
