# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
for n0 in range(1):
    n1 = 2
    del n0
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
n0 = 5
# ---- cell
for n0 in range(1):
    n1 = 2
    del n0
