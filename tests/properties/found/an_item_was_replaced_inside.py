# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
l1 = [7, 8]
l0 = []
m0 = [l0, l1]
# ---- cell
for x in m0:
    k1 = 1
    while True:
        k1 += 1
        if k1 > 7:
            break
        m0[0] = m0[-1]
    match d2:
        case [x, *rest]:
            n6 = 4
# ======== kernel 2, to the end
# the same cells
