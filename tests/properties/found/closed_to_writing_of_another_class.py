# mode cells
# ======== kernel 1, to the end
# ---- cell
import contextlib, random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
with contextlib.suppress(Exception):
    a1 = np.matrix([[1, 8]])
    a1.setflags(write=False)
# ======== kernel 2, to the end
# the same cells
