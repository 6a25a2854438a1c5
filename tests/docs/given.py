"""What the examples of a page take as given, because the reader has it: his own data and functions."""

from __future__ import annotations

GIVEN = {
    "README.md": """
import time, types
data = [1.0, 2.0, 3.0]
test = [1.5]
def train(data):
    time.sleep(0.1)
    return types.SimpleNamespace(score=lambda test: 0.9)
def one_epoch(model, data):
    return sum(data)
model = {}
read, split, tidy = list, lambda rows, n: rows[:n], str.upper
""",
}
