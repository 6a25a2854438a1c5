# mode cells
# ======== kernel 1, killed after 28 lines
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
n0 = 1
# ---- cell
random.random()
for n1 in range(6):
    n0 += 1
else:
    n0 = random.random()
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
n0 = 1
# ---- cell
for n1 in range(6):
    n0 += 1
else:
    n0 = random.random()
