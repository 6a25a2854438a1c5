"""What popular libraries make is known again in the next kernel, and comes back as it was.

Every value is made twice: by a statement that is saved, and by one that is not, so that it is made anew in every kernel
and has to be known by what it holds. In the third kernel one cell has been edited.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kernels import Cell, Kernel

pytestmark = pytest.mark.slow


class Case(NamedTuple):
    setup: str
    make: str
    """Binds `made`."""
    use: str
    """What it is asked for."""


CASES = {
    "a combination of flags": Case(
        "import enum\nclass Colour(enum.Flag):\n    RED = 1\n    BLUE = 2",
        "made = Colour.RED | Colour.BLUE",
        "repr(made), Colour.RED in made, ~made",
    ),
    "a pydantic model with a computed field": Case(
        "from pydantic import BaseModel, computed_field\n"
        "class Square(BaseModel):\n    side: int\n"
        "    @computed_field\n    @property\n    def area(self) -> int: return self.side ** 2",
        "made = Square(side=3)",
        "made.model_dump()",
    ),
    "a pydantic model with validators and private attributes": Case(
        "from pydantic import BaseModel, PrivateAttr, field_serializer, field_validator\n"
        "class Order(BaseModel):\n    count: int\n    _seen: dict = PrivateAttr(default_factory=dict)\n"
        "    @field_validator('count')\n    @classmethod\n    def more(cls, value): return value + 1\n"
        "    @field_serializer('count')\n    def as_text(self, value): return str(value)",
        "made = Order(count=3); made._seen['a'] = {1}",
        "made.model_dump(), made._seen",
    ),
    "a frozen class of attrs": Case(
        "import attrs\n@attrs.frozen\nclass Point:\n    x: int\n    seen: list = attrs.field(factory=list)",
        "made = Point(1)",
        "repr(made)",
    ),
    "a figure of plotly": Case(
        "import numpy as np, pandas as pd, plotly.express as px\n"
        "table = pd.DataFrame({'x': np.arange(8.), 'y': np.arange(8.) ** 2, 'kind': list('abcdabcd')})",
        "made = px.line(table, x='x', y='y', facet_col='kind', animation_frame='kind')",
        "made.to_json(), type(made.data[0].x).__name__, float(made.frames[1].data[0].y.sum())",
    ),
    "several figures of plotly and their parts": Case(
        "import plotly.graph_objects as go\nfrom plotly.subplots import make_subplots",
        "made = [make_subplots(1, 2), go.Figure(go.Scatter(y=[1, 2], meta={'b': 1, 'a': 2}))]\n"
        "first = made[0].add_trace(go.Bar(y=[1, 2]), row=1, col=2).update_layout(title='T')\n"
        "made += [made[1].data[0], made[1].layout.title]",
        "made[0].to_json(), made[1].to_json(), made[2] is made[1].data[0], made[3] is made[1].layout.title",
    ),
    "a model that was given a formula": Case(
        "import numpy as np, pandas as pd, statsmodels.formula.api as smf\n"
        "def half(x): return x / 2\n"
        "rows = pd.DataFrame({'x': np.arange(20.), 'kind': list('abcd') * 5, 'y': np.sin(np.arange(20.))})",
        "made = smf.ols('y ~ half(x) + center(x ** 2) + bs(x, df=4) + C(kind)', rows).fit()",
        "made.params.round(6).to_dict(), made.predict(rows.head(3)).round(6).tolist(), made.model.formula",
    ),
    "a design of patsy": Case(
        "import patsy, numpy as np\nat = {'x': np.arange(4.), 'kind': list('abab')}",
        "made = patsy.dmatrix('standardize(x) + C(kind)', at)",
        "made.design_info.column_names, made.tolist(), type(made).__name__,"
        " patsy.build_design_matrices([made.design_info], at)[0].tolist()",
    ),
    "a generalised linear model": Case(
        "import numpy as np, statsmodels.api as sm\nX = np.column_stack([np.ones(20), np.arange(20.)])",
        "made = sm.GLM(np.arange(20.) % 2, X, family=sm.families.Binomial()).fit()",
        "made.params.round(6).tolist(), made.predict(X[:3]).round(6).tolist()",
    ),
    "a model of a time series": Case(
        "import numpy as np\nfrom statsmodels.tsa.arima.model import ARIMA",
        "made = ARIMA(np.sin(np.arange(30.)), order=(1, 0, 0)).fit()",
        "made.params.round(4).tolist(), made.states.filtered.shape",
    ),
}


def _cells(name: str, *, edited: bool) -> dict[str, str]:
    case, again = CASES[name], CASES[name].make.replace("made", "again")
    use = f"(lambda: ({case.use}))()" if edited else case.use
    return {
        "setup": case.setup,
        "made": f"%%checkpointed\n{case.make}",
        "used": f"%%checkpointed\nused = {use}",
        "used as well": f"%%checkpointed\nas_well = [{case.use}]",
        "shown": f"print(used, as_well, {case.use})",
        "forgotten": "del made, used, as_well; first = None",
        "made again": again,
        "used again": f"%%checkpointed\nused_again = {case.use.replace('made', 'again')}",
        "done": "del again, used_again; first = None",
    }


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Cell]]]:
    """What every cell of every case showed, in three kernels."""
    folder: Path = tmp_path_factory.mktemp("libraries")
    shown = []
    for edited in (False, False, True):
        with Kernel(folder) as kernel:
            kernel.run("%load_ext nbcheckpoint")
            shown.append({name: {k: kernel.run(c) for k, c in _cells(name, edited=edited).items()} for name in CASES})
            kernel.kill()
    return shown


@pytest.mark.parametrize("name", CASES)
def test_it_is_restored_as_it_was(kernels: list[dict[str, dict[str, Cell]]], name: str) -> None:
    first, second, _ = (kernel[name] for kernel in kernels)
    assert second["made"].status == second["used"].status == "restored", (second["made"].line, second["used"].line)
    assert second["shown"].stdout == first["shown"].stdout


@pytest.mark.parametrize("name", CASES)
def test_made_anew_it_is_known_again(kernels: list[dict[str, dict[str, Cell]]], name: str) -> None:
    assert kernels[1][name]["used again"].status == "restored", kernels[1][name]["used again"].line


@pytest.mark.parametrize("name", CASES)
def test_an_edit_behind_it_computes_the_edit_only(kernels: list[dict[str, dict[str, Cell]]], name: str) -> None:
    first, _, third = (kernel[name] for kernel in kernels)
    assert third["used"].status == "computed"
    assert {third[cell].status for cell in ("made", "used as well", "used again")} == {"restored"}
    assert third["shown"].stdout == first["shown"].stdout
