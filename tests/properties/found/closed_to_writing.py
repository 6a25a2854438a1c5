# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
a0 = np.arange(4.)
a2 = a0[::2]
a3 = np.arange(6.)[::3]
a4 = np.arange(3.)
# ---- cell
for x in (1, 2):
    a2.setflags(write=False)
    a3.setflags(write=False)
    a4.setflags(write=False)
# ======== kernel 2, to the end
# the same cells
