# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
l0 = [1]
# ---- cell
l0
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
l0 = [1]
# ---- cell
l0
# ---- cell
_.append(2)
