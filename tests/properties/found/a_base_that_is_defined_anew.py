# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
class A:
    def __init__(self, n):
        self.n = n
class B(A):
    pass
l0 = A(1)
o0 = B(1)
l1 = A(2)
# ---- cell
class A:
    def __init__(self, n):
        self.n = n + 1
l0.n = 2
# ---- cell
v5 = isinstance(o0, type(l0)), type(l1) is type(l0)
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
class A:
    def __init__(self, n):
        self.n = n
class B(A):
    pass
l0 = A(1)
o0 = B(1)
l1 = A(2)
# ---- cell
class A:
    def __init__(self, n):
        self.n = n + 1
l0.n = 2
# ---- cell
v5 = isinstance(o0, type(l0)), type(l1) is type(l0), 1
