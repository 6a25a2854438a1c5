# mode cells
# ======== kernel 1, to the end
# ---- cell
import random, numpy as np, pandas as pd
random.seed(1); np.random.seed(2)
# ---- cell
pd.options.display.max_rows = 7
pd.set_option("display.precision", 2)
np.set_printoptions(precision=2)
# ---- cell
pd.DataFrame({'x': np.arange(9) / 7})
# ---- cell
print(pd.options.display.max_rows, pd.get_option("display.precision"), np.get_printoptions()["precision"])
# ======== kernel 2, to the end
# ---- cell
import random, numpy as np, pandas as pd
random.seed(1); np.random.seed(2)
# ---- cell
pd.options.display.max_rows = 7
pd.set_option("display.precision", 2)
np.set_printoptions(precision=2)
# ---- cell
pd.DataFrame({'x': np.arange(9) / 7})
# ---- cell
print('again', pd.options.display.max_rows, pd.get_option("display.precision"), np.get_printoptions()["precision"])
