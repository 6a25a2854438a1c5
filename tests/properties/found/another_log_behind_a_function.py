# mode cells
# ======== kernel 1, to the end
# ---- cell
import functools, random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
def logged(log):
    def outer(f):
        @functools.wraps(f)
        def inner(*a):
            log.append(a)
        return inner
    return outer
l1 = []
l2 = []
# ---- cell
@logged(l1)
def f(v):
    return v
# ---- cell
f = logged(l2)(f.__wrapped__)
# ======== kernel 2, to the end
# the same cells
# ======== kernel 3, to the end
# ---- cell
import functools, random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
def logged(log):
    def outer(f):
        @functools.wraps(f)
        def inner(*a):
            log.append(a)
        return inner
    return outer
l1 = []
l2 = []
# ---- cell
@logged(l1)
def f(v):
    return v
# ---- cell
f = logged(l2)(f.__wrapped__)
# ---- cell
f(3)
