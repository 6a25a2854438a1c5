# mode cells
# ======== kernel 1, to the end
# ---- cell
import collections, contextlib, dataclasses, datetime, decimal, enum, fractions, functools, itertools, math, os
import random, sys, typing
import numpy as np, pandas as pd
from IPython.display import display
random.seed(1); np.random.seed(2)
# ---- cell
l1 = [6, 7]
f2 = pd.DataFrame({'x': [5, 2, 1]})
# ---- cell
v1 = decimal.Decimal(1) / 7
# ---- cell
m2 = [l1, l1, [1]]
# ---- cell
try:
    n1 = g2(0)
except Exception as e0:
    v2 = KeyError(1)
    v2.__cause__ = e0
# ---- cell
for n0 in range(9, 0, -2):
    if n0 % 3 == 9:
        break
    q2 = bytearray(b'ab4')
k0 = 0
while k0 < 9:
    k0 += 1
    if n0 % 3 == 3:
        break
    for n0 in range(8, 0, -2):
        for x in f2['x']:
            a2 = np.frombuffer(q2, 'u1')
        v0 = (v1, l1)
