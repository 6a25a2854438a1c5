# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
m2 = [[9] * 2] * 2
m2.append(m2)
d2 = {'a': m2}
d2['d'] = d2
# ======== kernel 2, to the end
# the same cells
