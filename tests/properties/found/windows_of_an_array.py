# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
a2 = np.arange(4.)
a0 = a2[::2]
# ---- cell
a1 = np.lib.stride_tricks.sliding_window_view(a0, 2)
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np
random.seed(1); np.random.seed(2)
# ---- cell
a2 = np.arange(4.)
a0 = a2[::2]
# ---- cell
a1 = np.lib.stride_tricks.sliding_window_view(a0, 2)
# ---- cell
a2[0] = 7
