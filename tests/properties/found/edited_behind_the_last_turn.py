# mode clock
# ======== kernel 1, killed after 53 lines
# ---- cell
import asyncio, collections, contextlib, dataclasses, datetime, decimal, enum, fractions, functools, itertools
import math, os, random, sys, threading, typing, weakref
from concurrent.futures import ThreadPoolExecutor
import numpy as np, pandas as pd
from IPython.display import display
random.seed(1); np.random.seed(2)
# ---- cell
n2 = 8
l0 = [6, 3]
l1 = l0
m1 = [l1, l1]
a0 = np.arange(4.)
f2 = pd.DataFrame({'x': [2, 2, 1]})
t2 = 'text'
# ---- cell
o2 = o0
try:
    i1 = (x * 0 for x in l0)
    raise ValueError(7)
except Exception as e0:
    t9 = type(e0).__name__
# ---- cell
for x, n0 in zip(l0, range(5)):
    with open('p2.txt', 'w') as p0: _ = p0.write(f'{n2};')
# ======== kernel 2, to the end
# ---- file p2.txt '6;'
# ---- cell
import asyncio, collections, contextlib, dataclasses, datetime, decimal, enum, fractions, functools, itertools
import math, os, random, sys, threading, typing, weakref
from concurrent.futures import ThreadPoolExecutor
import numpy as np, pandas as pd
from IPython.display import display
random.seed(1); np.random.seed(2)
# ---- cell
n2 = 8
l0 = [6, 3]
l1 = l0
m1 = [l1, l1]
a0 = np.arange(4.)
f2 = pd.DataFrame({'x': [2, 2, 1]})
t2 = 'text'
# ---- cell
for x, n0 in zip(l0, range(5)):
    with open('p2.txt', 'w') as p0: _ = p0.write(f'{n2};')
