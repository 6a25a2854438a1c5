# mode cells
# ======== kernel 1, killed after 23 lines
# ---- cell
import random, numpy as np, pandas as pd
random.seed(1); np.random.seed(2)
m0 = []
# ---- cell
for x in (pd.DataFrame({'a': [n]}) for n in range(3)):
    m0.append(x)
    n1 = 1
    n2 = 2
l1 = 1
l2 = 2
l3 = 3
# ======== kernel 2, to the end
# the same cells
