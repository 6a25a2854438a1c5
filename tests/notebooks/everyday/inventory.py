# results: stock, log, order, totals, shelf_a, same
# %%
from __future__ import annotations

import enum
from dataclasses import dataclass, field
# %%
class Kind(enum.Enum):
    TOOL = 1
    PART = 2


@dataclass
class Item:
    name: str
    kind: Kind
    price: float
    count: int = 0


@dataclass
class Shelf:
    items: list[Item] = field(default_factory=list)

    def value(self) -> float:
        return sum(item.price * item.count for item in self.items)


class Stock:
    def __init__(self):
        self.shelves = {}
        self.by_name = {}

    def add(self, shelf, item):
        self.shelves.setdefault(shelf, Shelf()).items.append(item)
        self.by_name[item.name] = item
        return self

    def take(self, name, count):
        item = self.by_name[name]
        if item.count < count:
            raise LookupError(f"only {item.count} of {name}")
        item.count -= count
        return item.price * count
# %%
stock = Stock()
stock.add("a", Item("saw", Kind.TOOL, 19.5, 4)).add("a", Item("nail", Kind.PART, 0.05, 900)).add("b", Item("drill", Kind.TOOL, 80.0, 2))
shelf_a = stock.shelves["a"]
shelf_a.value()
# %%
log, order = [], [("saw", 2), ("nail", 250), ("drill", 3), ("saw", 2), ("glue", 1)]
for name, count in order:
    try:
        log.append((name, round(stock.take(name, count), 2)))
    except LookupError as problem:
        log.append((name, str(problem)))
        print("not taken:", problem)
# %%
totals = {kind.name: sum(i.count for s in stock.shelves.values() for i in s.items if i.kind is kind) for kind in Kind}
same = shelf_a is stock.shelves["a"] and shelf_a.items[0] is stock.by_name["saw"]
isinstance(shelf_a.items[0], Item), same, totals
