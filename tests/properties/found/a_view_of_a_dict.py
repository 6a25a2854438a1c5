# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
d0 = {'a': 1, 'b': 2}
s0 = {1, 2}
# ---- cell
v0 = d0.keys()
i0 = iter(d0)
i1 = iter(s0)
n0 = next(i0)
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
d0 = {'a': 1, 'b': 2}
s0 = {1, 2}
# ---- cell
v0 = d0.keys()
i0 = iter(d0)
i1 = iter(s0)
n0 = next(i0)
# ---- cell
d0['c'] = 3
s0.add(3)
l0 = list(v0)
# ---- cell
n1 = next(i0)
# ---- cell
n2 = next(i1)
