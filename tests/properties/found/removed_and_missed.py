# mode auto
# ======== kernel 1, to the end
# ---- file p1.txt 'text 8\nmore'
# ---- cell
import os, random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
try:
    os.remove('p1.txt')
except Exception as e0:
    s2.clear()
finally:
    n7 = 2
# ======== kernel 2, to the end
# the same cells
