# results: data, parameters, r2, residuals, by_group, tests
# %%
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
# %%
np.random.seed(11)
n = 150
data = pd.DataFrame({"x1": np.random.normal(size=n), "x2": np.random.uniform(size=n), "g": np.random.choice(list("ab"), n)})
data["y"] = 1 + 2 * data.x1 - 3 * data.x2 + (data.g == "b") * 0.5 + np.random.normal(scale=0.3, size=n)
data.describe().round(3)
# %%
ols = sm.OLS(data["y"], sm.add_constant(data[["x1", "x2"]])).fit()
parameters = ols.params.round(8)
r2 = round(float(ols.rsquared), 8)
print(parameters.to_string(), r2)
# %%
formula = smf.ols("y ~ x1 + x2 + C(g)", data=data).fit()
residuals = formula.resid.round(8)
formula.params.round(4)
# %%
by_group = {}
for g, part in data.groupby("g"):
    fitted = smf.ols("y ~ x1", data=part).fit()
    by_group[g] = {name: round(float(value), 6) for name, value in fitted.params.items()}
by_group
# %%
tests = {"dw": round(float(sm.stats.stattools.durbin_watson(residuals)), 6)}
tests["shape"] = formula.model.exog.shape
tests
