# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
def nested(k):
    class Local:
        base = k
    return Local()
# ---- cell
o0 = nested(3)
t0 = type(o0).__qualname__
# ======== kernel 2, to the end
# the same cells
# ======== kernel 3, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
def nested(k):
    class Local:
        base = k
    return Local()
# ---- cell
o0 = nested(3)
# ---- cell
print(o0)
