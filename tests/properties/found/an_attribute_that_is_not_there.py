# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np, pandas as pd
random.seed(1); np.random.seed(2)
# ---- cell
class Frame(pd.DataFrame):
    _metadata = ['note']
f0 = Frame({'x': [1, 2]})
# ======== kernel 2, to the end
# the same cells
