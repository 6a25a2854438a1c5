# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
n1 = 6
# ---- cell
n1 + 1
# ---- cell
n1 + 2
n1 + 3
# ---- cell
n1 + 4
# ---- cell
n1 + 5;
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
n1 = 6
# ---- cell
n1 + 1
n2 = 1
# ---- cell
n1 + 2
# ---- cell
n1 + 4
def plus(v):
    return v
# ---- cell
n1 + 5
# ---- cell
n1 + 4;
