"""Loops over the rows, groups and columns of a data frame that they write to, killed in the middle."""

from __future__ import annotations

import pytest

from tests.integration.test_loops import SETUP, cut, uninterrupted, worked
from tests.kernels import Kernel

pytest.importorskip("pandas", "3", reason="its iterators are known")
pytestmark = pytest.mark.slow

MIXED = """import pandas as pd, numpy as np
df = pd.DataFrame({'n': range(10), 'text': [f'row {n}' for n in range(10)], 'half': np.arange(10) / 2})
"""
"""Its values are copied to be gone through."""
NUMBERS = "import pandas as pd, numpy as np\ndf = pd.DataFrame({'n': np.arange(10.0), 'half': 0.5, 'y': 0.0})\n"
"""All in one piece of memory: who goes through it may see what is written."""
WIDE = "import pandas as pd\ndf = pd.DataFrame({f'c{n}': [n, n + 0.5] for n in range(10)})\n"
LOOK = (
    "df.to_dict(), df.dtypes.to_dict(), i, row if type(row) is not pd.Series else (row.to_dict(), row.dtype, row.name)"
)
ROWS = "for i, row in {}:\n    df.{} = work(int(row.n)) + 0.5\n    gate(int(row.n), 7)"
TUPLES = "for row in df.itertuples():\n    i = row.Index\n    df.at[i, 'y'] = work(i) + row.half\n    gate(i, 7)"
GROUPS = "    df.loc[g.index, 'y'] = work(int(g.n.iloc[0]))\n    gate(int(g.n.iloc[0]), 7)"
GROUPED = "df.to_dict(), name, g.to_dict(), g.dtypes.to_dict()"

LOOPS = {
    "rows, into a column of nothing": (MIXED + "df['y'] = None", ROWS.format("df.iterrows()", "at[i, 'y']"), LOOK),
    "rows, into a column of numbers": (MIXED + "df['y'] = 0.0", ROWS.format("df.iterrows()", "at[i, 'y']"), LOOK),
    "rows, into a column it makes": (MIXED, ROWS.format("df.iterrows()", "loc[i, 'y']"), LOOK),
    "rows of one piece of memory": (NUMBERS, ROWS.format("df.iterrows()", "at[i, 'y']"), LOOK),
    "rows, with a bar": (
        "from tqdm import tqdm\n" + MIXED,
        ROWS.format("tqdm(df.iterrows(), total=len(df))", "loc[i, 'y']"),
        LOOK,
    ),
    "rows, counted": (
        MIXED,
        "for at, (i, row) in enumerate(df.iterrows()):\n    df.loc[i, 'y'] = work(at) + 0.5\n    gate(at, 7)",
        LOOK + ", at",
    ),
    "rows by name": (MIXED + "df = df.set_index('text')", ROWS.format("df.iterrows()", "loc[i, 'y']"), LOOK),
    "rows by date": (
        MIXED + "df.index = pd.date_range('2020-03-01', periods=10, tz='Europe/Berlin')",
        ROWS.format("df.iterrows()", "loc[i, 'y']"),
        LOOK,
    ),
    "labels": (
        MIXED + "df['y'] = 0.0",
        "for i in df.index:\n    df.at[i, 'y'] = work(int(df.at[i, 'n'])) + 0.5\n    gate(i, 7)",
        "df.to_dict(), i",
    ),
    "tuples": (MIXED + "df['y'] = 0.0", TUPLES, LOOK),
    "tuples of one piece of memory": (NUMBERS, TUPLES, LOOK),
    "tuples with a date": (
        MIXED + "df['y'] = 0.0\ndf['date'] = pd.date_range('2020-03-01', periods=10)",
        TUPLES,
        LOOK,
    ),
    "two columns": (
        MIXED + "df['y'] = 0.0",
        "for n, text in zip(df['n'], df['text']):\n    df.loc[n, 'y'] = work(n) + 0.5\n    gate(n, 7)",
        "df.to_dict(), n, text",
    ),
    "groups": (MIXED + "df['y'] = 0", "for name, g in df.groupby('text'):\n" + GROUPS, GROUPED),
    "groups that have a name": (
        MIXED + "df['y'] = 0; groups = df.groupby('n')",
        "for name, g in groups:\n" + GROUPS,
        GROUPED,
    ),
    "groups by a list": (MIXED + "df['y'] = 0", "for name, g in df.groupby(['text']):\n" + GROUPS, GROUPED),
    "groups by two": (MIXED + "df['y'] = 0", "for name, g in df.groupby(['text', 'half']):\n" + GROUPS, GROUPED),
    "groups of a column": (
        MIXED + "df['y'] = 0",
        "for name, s in df.groupby('text')['n']:\n    df.loc[s.index, 'y'] = work(s.iloc[0])\n    gate(s.iloc[0], 7)",
        "df.to_dict(), name, s.to_dict(), s.name",
    ),
    "groups that it keeps": (
        MIXED + "kept = []",
        "for name, g in df.groupby('text'):\n    g['y'] = work(int(g.n.iloc[0]))\n    kept.append(g)\n"
        "    gate(int(g.n.iloc[0]), 7)",
        "[one.to_dict() for one in kept], g is kept[-1], name, df.to_dict()",
    ),
    "columns": (
        WIDE,
        "for c in df.columns:\n    df[c] = df[c] * work(int(c[1:]))\n    gate(int(c[1:]), 7)",
        "df.to_dict(), c",
    ),
    "columns with their labels": (
        WIDE,
        "for c, s in df.items():\n    df[c] = s * work(int(c[1:]))\n    df['last'] = s\n    gate(int(c[1:]), 7)",
        "df.to_dict(), c, s.to_dict()",
    ),
    "a frame": (WIDE, "for c in df:\n    df[c] = df[c] * work(int(c[1:]))\n    gate(int(c[1:]), 7)", "df.to_dict(), c"),
    "columns, counted": (
        WIDE,
        "for at, c in enumerate(df.columns):\n    df[c] = df[c] * work(at)\n    gate(at, 7)",
        "df.to_dict(), c",
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_writes_to_the_frame_it_goes_through_goes_on(kernel: Kernel, name: str) -> None:
    """It began anew: its iterator holds the frame, and could not be saved with it."""
    setup, loop, look = LOOPS[name]
    cell = f"%%checkpointed --every 1\n{loop}"
    wanted = uninterrupted(kernel, cell, look, setup=setup)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=setup, saved=7)
    assert "loop continued at 8" in kernel.run(cell).line
    assert kernel.run(look).result == wanted
    assert len(worked(kernel.folder)) == 11


def test_a_loop_over_rows_that_went_on_goes_on_once_more(kernel: Kernel) -> None:
    """What it goes on with can be saved in its turn."""
    size = "os.fstat(201).st_size"
    loop = (
        f"for i, row in df.iterrows():\n    df.loc[i, 'y'] = work(i)\n    if {size} == 3:\n        gate(i, 3)\n"
        f"    assert i != 7 or {size} != 2"
    )
    cell = f"%%checkpointed --every 1\n{loop}"
    wanted = uninterrupted(kernel, cell, LOOK, setup=MIXED)
    (kernel.folder / "tally.txt").unlink()
    cut(kernel, cell, setup=MIXED, saved=3)
    (kernel.folder / "closed.txt").write_text("no")
    assert kernel.run(cell, fails=True).error == "AssertionError"
    (kernel.folder / "closed.txt").write_text("")
    kernel.kill()
    kernel.start()
    kernel.run(SETUP + MIXED)
    assert "loop continued at 8" in kernel.run(cell).line
    assert kernel.run(LOOK).result == wanted
    assert len(worked(kernel.folder)) == 12


SEEN = {
    "tuples that see what was written ahead": (
        NUMBERS,
        "for row in df.itertuples():\n    i = row.Index\n    df.at[min(i + 1, 9), 'y'] = work(i) + row.y",
        "df.to_dict(), row",
    ),
    "rows that see what was written ahead": (
        NUMBERS,
        "for i, row in df.iterrows():\n    y = row.y\n    del row\n    df.at[min(i + 1, 9), 'y'] = work(i) + y",
        "df.to_dict(), y",
    ),
    "an array that sees what is written, or does not": (
        NUMBERS + "seen = []",
        "for i, row in df.iterrows():\n    before = df.to_numpy()\n    df.at[i, 'y'] = work(i)\n"
        "    seen.append(float(before[i, 2]))",
        "df.to_dict(), seen",
    ),
    "the same of a frame in several pieces": (
        MIXED + "df['y'] = 0.0; seen = []",
        "for i, row in df.iterrows():\n    before = df['y'].to_numpy()\n    df.at[i, 'y'] = work(i)\n"
        "    seen.append(float(before[i]))",
        "df.to_dict(), seen",
    ),
    "what is said of the frame": (
        MIXED + "seen = []",
        "for i, row in df.iterrows():\n    df.loc[i, 'y'] = work(i)\n    df.attrs['at'] = i\n"
        "    seen.append(dict(row.attrs))",
        "df.to_dict(), df.attrs, seen",
    ),
    "lists in it": (
        MIXED + "df['parts'] = [[n] for n in range(10)]",
        "for i, row in df.iterrows():\n    row.parts.append(work(i))\n    df.at[min(i + 1, 9), 'parts'].append(i)",
        "df.to_dict(), row.parts is df.at[9, 'parts']",
    ),
    "another frame under its name": (
        MIXED,
        "for i, row in df.iterrows():\n    df = df.assign(**{f'y{i}': work(i)}).iloc[::-1]",
        "df.to_dict(), row.to_dict()",
    ),
    "columns that it takes away": (
        WIDE,
        "for at, c in enumerate(df):\n    df['sum'] = df.get('sum', 0) + df.pop(c) * work(at)",
        "df.to_dict(), c",
    ),
    "groups of what was there": (
        MIXED + "df['y'] = 0",
        "for i, (name, g) in enumerate(df.groupby('n')):\n    df.loc[:, 'y'] += work(i)\n"
        "    df.loc[i, 'half'] = g.y.iloc[0]",
        "df.to_dict(), g.to_dict()",
    ),
    "text that it replaces": (
        MIXED,
        "for i, text in enumerate(df['text']):\n    df.at[min(i + 1, 9), 'text'] = str(work(i)) + text",
        "df.to_dict(), text",
    ),
    "tuples of text that it replaces": (
        MIXED,
        "for row in df.itertuples():\n    i = row.Index\n    df.at[min(i + 1, 9), 'text'] = str(work(i)) + row.text",
        "df.to_dict(), row",
    ),
    "dates that it moves": (
        MIXED + "df['date'] = pd.date_range('2020-03-01', periods=10)",
        "for i, date in enumerate(df['date']):\n    df.at[min(i + 1, 9), 'date'] = date + pd.Timedelta(work(i), 'D')",
        "df.to_dict(), date",
    ),
    "rows that somebody else asks for": (
        MIXED + "df['y'] = 0.0; rows = df.iterrows()",
        "for i, row in rows:\n    df.at[i, 'y'] = work(i) + (next(rows)[0] if i == 2 else 0)",
        "df.to_dict(), i",
    ),
    "labels that somebody else has begun with": (
        WIDE + "def rest(of):\n    it = iter(of)\n    next(it)\n    return it\n",
        "for i, c in enumerate(rest(df)):\n    df[c] = df[c] * work(i)",
        "df.to_dict(), c",
    ),
    "pairs of one iterator": (
        MIXED + "df = pd.concat([df, df], ignore_index=True)",
        "for i, (a, b) in enumerate(zip(*[iter(df['text'])] * 2)):\n    df.loc[i, 'y'] = work(i)",
        "df.to_dict(), a, b",
    ),
    "two that are not equally long": (
        MIXED + "df['y'] = 0.0; ahead = iter(df['n']); next(ahead); next(ahead)",
        "for i, (n, text) in enumerate(zip(ahead, df['text'])):\n"
        "    df.loc[n, 'y'] = work(i)\n    df.loc[i, 'text'] += '!'",
        "df.to_dict(), n, text",
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_an_iterator_sees_of_a_frame_that_is_written_to_is_what_it_would_have_seen(
    kernel: Kernel, name: str
) -> None:
    """Whether it goes on or begins anew."""
    setup, loop, look = SEEN[name]
    cell = f"%%checkpointed --every 1\n{loop}\n    gate(at if 'at' in globals() else i, 5)"
    wanted = uninterrupted(kernel, cell, look, setup=setup)
    cut(kernel, cell, setup=setup)
    again = kernel.run(cell)
    assert kernel.run(look).result == wanted, again.line


CHANGED = {
    "a value that is read": "df.at[8, 'n'] = 80",
    "a value that is done": "df.at[0, 'n'] = 1",
    "a column": "df['z'] = 1",
    "the order": "df = df.iloc[::-1]",
    "a type": "df['half'] = df['half'].astype('float32')",
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_loop_over_rows_of_a_frame_that_was_changed_in_between_begins_anew(kernel: Kernel, name: str) -> None:
    cell = "%%checkpointed --every 1\n" + ROWS.format("df.iterrows()", "loc[i, 'y']")
    wanted = uninterrupted(kernel, cell, LOOK, setup=MIXED + CHANGED[name])
    cut(kernel, cell, setup=MIXED, saved=7)
    kernel.run(CHANGED[name])
    assert "continued" not in kernel.run(cell).line
    assert kernel.run(LOOK).result == wanted
