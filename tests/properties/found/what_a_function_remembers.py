# mode cells
# ======== kernel 1, to the end
# ---- cell
import functools, random, numpy as np
random.seed(1); np.random.seed(2)
@functools.lru_cache(maxsize=None)
def cached(v):
    return v * 2
# ---- cell
l0 = [cached(n) for n in range(4)]
# ======== kernel 2, to the end
# ---- cell
import functools, random, numpy as np
random.seed(1); np.random.seed(2)
@functools.lru_cache(maxsize=None)
def cached(v):
    return v * 2
# ---- cell
l0 = [cached(n) for n in range(4)]
# ---- cell
n1 = cached.cache_info().currsize
