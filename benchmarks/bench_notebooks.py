"""The notebooks `overhead.py` runs: slow cells, a big state with quick cells, and two that are nothing but overhead."""

from __future__ import annotations

IMPORTS = "import numpy as np, pandas as pd"

SLOW = [
    "rng = np.random.default_rng({turn}); data = rng.random((4000, 500))\n"
    "words = [str(i % 977) for i in range(300_000)]",
    "def grind(rounds, seed):\n"
    "    total = seed\n"
    "    for i in range(rounds):\n"
    "        total = (total * 31 + i) % 1_000_003\n"
    "    return total",
    "first = [grind(8_000_000, n + {turn}) for n in range(5)]",
    "gram = sum((data.T @ data)[n % 500, 0] for n in range(60)) + grind(25_000_000, {turn})",
    "counts = {{}}\nfor n in range({turn}, {turn} + 60):\n"
    "    for word in words:\n        counts[word] = counts.get(word, 0) + n",
    "frame = pd.DataFrame({{'a': np.arange(300_000) % 1000, 'b': rng.random(300_000), 'w': words}})",
    "means = [frame.groupby('w')['b'].mean().sum() + {turn} for _ in range(150)]",
    "last = [grind(6_000_000, n - {turn}) for n in range(5)]",
]
"""Two to five seconds of computing in each of the long ones, on moderate data; another result in every turn."""

STATE = [
    "rng = np.random.default_rng(1)",
    "arrays = [rng.random(8 << 20) for _ in range({arrays})]",
    "big = rng.random(({rows}, 64))",
    "n = {frame_rows}\n"
    "frame = pd.DataFrame({{'number': np.arange(n), 'value': rng.random(n),\n"
    "                      'name': pd.Series(['name %d' % (i % 50_000) for i in range(n)], dtype=object),\n"
    "                      'town': ['town %d' % (i % 300) for i in range(n)]}})",
    "records = [{{'id': i, 'tags': [i, str(i)], 'score': i / 7}} for i in range({objects})]",
]

QUICK = [
    "frame.head()",
    "len(frame)",
    "len(records)",
    "big[:5, :3]",
    "big.mean()",
    "frame['value'].mean()",
    "records[:3]",
    "frame['double'] = frame['value'] * 2",
    "small = big[1000:1010].copy()",
    "records.append({'id': -1, 'tags': [], 'score': 0.0})",
    "frame.shape",
    "arrays[0].sum()",
    "top = frame['town'].value_counts().head(10)",
    "some = [r['score'] for r in records[:1000]]",
    "best = max(r['score'] for r in records)",
    "frame[frame['value'] > 0.999].head()",
    "frame['flag'] = frame['value'] > 0.5",
    "print(frame.dtypes)",
    "arrays[1][:10] = 0.0",
    "total = sum(a.mean() for a in arrays)",
]
"""Twenty cells; a notebook has them twice."""

STATEMENTS = 300


def state(megabytes: int, objects: int) -> list[str]:
    """Cells that make about so much of arrays, a frame with strings beside it and so many small objects."""
    half = megabytes // 2
    sizes = {"arrays": half // 64, "rows": (half << 20) // 512, "frame_rows": objects, "objects": objects}
    return [IMPORTS, *(cell.format(**sizes) for cell in STATE)]


def slow(turn: int) -> list[str]:
    return [cell.format(turn=turn) for cell in SLOW]


def statements() -> str:
    """A cell of the quickest statements there are, no two alike."""
    return "\n".join(f"x = {number}" for number in range(STATEMENTS))


TIGHT = "s = 0\nfor i in range(2_000_000): s += i"
WORDS = "words = [str(n) for n in range(1_000_000)]"
TIGHT_LIST = "lengths = {}\nfor word in words: lengths[len(word)] = lengths.get(len(word), 0) + 1"
TIGHT_PAIRS = "s = 0\nfor n, word in enumerate(words): s += n * len(word)"
