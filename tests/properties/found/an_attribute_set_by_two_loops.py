# mode auto
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
class Box:
    def __init__(self, data):
        self.data = data
        self.n = 7
    def add(self, v):
        return self.n * 1
n1 = 6
l0 = [6, 6]
l1 = []
o0 = Box(l0)
# ---- cell
for o0.n in range(8):
    for o0.n in range(8):
        if n1 % 3 == 2:
            continue
        o0.data is l1
    for n0 in (x * 2 for x in range(4)):
        np.random.shuffle(l1)
    else:
        n0 = hash(t1) % 7
    try:
        f0 = f0
        d1 = {**d0, 'a': l1}
        l1[8]
    except Exception as e0:
        t9 = type(e0).__name__
        v1 = e0
        f0.pop('y')
    else:
        n7 = 1
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ======== kernel 3, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
class Box:
    def __init__(self, data):
        self.data = data
        self.n = 7
    def add(self, v):
        return self.n * 1
n1 = 6
l0 = [6, 6]
l1 = []
o0 = Box(l0)
# ---- cell
for o0.n in range(8):
    for o0.n in range(8):
        if n1 % 3 == 2:
            continue
        o0.data is l1
    for n0 in (x * 2 for x in range(4)):
        np.random.shuffle(l1)
    else:
        n0 = hash(t1) % 7
    try:
        f0 = f0
        d1 = {**d0, 'a': l1}
        l1[8]
    except Exception as e0:
        t9 = type(e0).__name__
        v1 = e0
        f0.pop('y')
    else:
        n7 = 1
