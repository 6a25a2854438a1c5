# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
n0 = 9
l2 = [2, 4]
# ---- cell
for n0, *x in [(4, 1, 2), (n0, l2)]:
    if n0 % 3 == 8:
        break
else:
    f1.at[0, 'y'] = 9
# ---- cell
for n1, (n2, m1) in enumerate([(1, l2), (2, l2)]):
    pass
else:
    f1.at[0, 'y'] = 9
# ======== kernel 2, to the end
# the same cells
