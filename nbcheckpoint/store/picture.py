"""A run's steps and what led to what, laid out as a picture.

Which step led to which is written down by whoever ran them (`meta["after"]`: the steps whose results it was given, or
the one before it). A run of many steps shows one box for all steps of a name. Where the boxes go is grandalf's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from msgspec.structs import replace

from nbcheckpoint.model import Record, Run, Step, StepStatus, shaped
from nbcheckpoint.units import say_duration

MOST_BOXES = 60
_HEIGHT, _GAP, _LETTER = 44.0, 36.0, 7.4
_ORDER: tuple[StepStatus, ...] = (
    *("failed", "paused", "running", "interrupted", "pending", "completed", "restored", "skipped"),
)
"""What is shown of several steps in one box: the first of these that one of them has."""
_COLOURS = {
    "completed": "#2e7d32",
    "restored": "#1565c0",
    "running": "#00838f",
    "failed": "#c62828",
    "interrupted": "#b26a00",
    "paused": "#7b1fa2",
    "skipped": "#757575",
    "pending": "#757575",
}


class Node(Record, frozen=True, kw_only=True):
    """One box."""

    id: str
    label: str
    kind: str = ""
    status: str = "pending"
    seconds: float = 0.0
    address: str = ""
    critical: bool = False
    """Had it been quicker, the run would have been."""
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


class Edge(Record, frozen=True, kw_only=True):
    """One arrow."""

    source: str
    target: str
    label: str = ""
    points: tuple[tuple[float, float], ...] = ()


class Picture(Record, frozen=True, kw_only=True):
    """Boxes and arrows, in their places. Shows itself as SVG in a notebook."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    width: float = 0.0
    height: float = 0.0

    def _repr_svg_(self) -> str:
        return svg(self)

    def __repr__(self) -> str:
        return f"<{len(self.nodes)} steps and {len(self.edges)} arrows between them>"

    def __str__(self) -> str:
        return "\n".join(f"{edge.source} -> {edge.target} {edge.label}".rstrip() for edge in self.edges)


class _Planned(Record, frozen=True, kw_only=True):
    """A graph as it was drawn up."""

    nodes: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()


def draw(run: Run, steps: Sequence[Step]) -> Picture:
    """The picture of a run from its records."""
    planned = shaped(run.meta.get("graph"), _Planned, _Planned())
    steps = [step for step in steps if not step.meta.get("flow")]
    if planned.nodes or len(steps) > MOST_BOXES:
        nodes, edges = _by_name(steps, planned)
    else:
        nodes = [_box(step.address, step.name, [step]) for step in steps]
        edges = [Edge(source=source, target=step.address) for step, source in _arrows(steps)]
    return lay_out(_critical(nodes, edges), edges)


def _arrows(steps: Sequence[Step]) -> Iterable[tuple[Step, str]]:
    known = {step.address for step in steps}
    before = ""
    for step in steps:
        after = [address for address in shaped(step.meta.get("after"), list[str], []) if address in known]
        for source in after or ([before] if before else []):
            yield step, source
        before = step.address


def _by_name(steps: Sequence[Step], planned: _Planned) -> tuple[list[Node], list[Edge]]:
    """One box for all steps of a name; of a graph also those that have not been reached."""
    named: dict[str, list[Step]] = {name: [] for name in planned.nodes}
    for step in steps:
        named.setdefault(step.name, []).append(step)
    ways = (edge for edge in planned.edges if edge.source in named and edge.target in named)
    edges = {(edge.source, edge.target): edge.label for edge in ways}
    if not planned.nodes:
        name_of = {step.address: step.name for step in steps}
        edges = {(name_of[source], step.name): "" for step, source in _arrows(steps) if name_of[source] != step.name}
    boxes = [_box(name, name, found) for name, found in named.items()]
    return boxes, [Edge(source=a, target=b, label=label) for (a, b), label in edges.items()]


def _box(id: str, name: str, steps: Sequence[Step]) -> Node:
    status = next((word for word in _ORDER if any(step.status == word for step in steps)), "pending")
    label = name if len(steps) < 2 else f"{name} ×{len(steps)}"
    return Node(
        id=id,
        label=label if len(label) <= 32 else f"{label[:31]}…",
        kind=steps[0].kind if steps else "node",
        status=status,
        seconds=sum(step.seconds for step in steps),
        address=steps[0].address if steps else "",
    )


def _critical(nodes: Sequence[Node], edges: Sequence[Edge]) -> list[Node]:
    """The boxes on the longest way through, by time. Arrows that go back are left out: time does not."""
    order = {node.id: at for at, node in enumerate(nodes)}
    longest = {node.id: node.seconds for node in nodes}
    came_from: dict[str, str] = {}
    forward = [edge for edge in edges if order[edge.source] < order[edge.target]]
    for edge in sorted(forward, key=lambda edge: order[edge.source]):
        took = longest[edge.source] + nodes[order[edge.target]].seconds
        if took > longest[edge.target]:
            longest[edge.target], came_from[edge.target] = took, edge.source
    at: str | None = max(longest, key=lambda id: longest[id], default=None)
    path = set()
    while at is not None and longest[at] > 0:
        path.add(at)
        at = came_from.get(at)
    return [replace(node, critical=node.id in path) for node in nodes]


class _View:
    """What the layout asks of a box or an arrow: its size, and a place to write down where it goes."""

    def __init__(self, width: float = 0.0, height: float = 0.0) -> None:
        self.w, self.h = width, height
        self.xy = (0.0, 0.0)
        self.points: list[tuple[float, float]] = []

    def setpath(self, points: Sequence[tuple[float, float]]) -> None:
        self.points = list(points)


def lay_out(nodes: Sequence[Node], edges: Sequence[Edge]) -> Picture:
    """Every box and arrow gets its place, from the top down."""
    from grandalf.graphs import Edge as Line
    from grandalf.graphs import Graph, Vertex
    from grandalf.layouts import SugiyamaLayout
    from grandalf.routing import route_with_lines

    boxes = {node.id: Vertex(node.id) for node in nodes}
    for node in nodes:
        boxes[node.id].view = _View(max(112.0, 24 + _LETTER * len(node.label)), _HEIGHT)
    lines = {(edge.source, edge.target): Line(boxes[edge.source], boxes[edge.target]) for edge in edges}
    for line in lines.values():
        line.view = _View()
    left, placed = 0.0, {}
    for part in Graph(list(boxes.values()), list(lines.values())).C:
        layout = SugiyamaLayout(part)
        layout.xspace, layout.yspace, layout.route_edge = 24.0, _GAP, route_with_lines
        layout.init_all()
        layout.draw()
        views, ways = [vertex.view for vertex in part.sV], [line.view for line in part.sE]
        reached = [x for view in ways for x, _ in view.points]
        shift = left - min([*reached, *(view.xy[0] - view.w / 2 for view in views)])
        left = shift + max([*reached, *(view.xy[0] + view.w / 2 for view in views)]) + 32
        placed.update({vertex.data: shift for vertex in part.sV})
    return _placed(nodes, edges, boxes, lines, placed)


def _placed(
    nodes: Sequence[Node], edges: Sequence[Edge], boxes: Any, lines: Any, shift: Mapping[str, float]
) -> Picture:
    put = []
    for node in nodes:
        view = boxes[node.id].view
        x, y = view.xy[0] - view.w / 2 + shift[node.id], view.xy[1] - view.h / 2
        put.append(replace(node, x=round(x, 1), y=round(y, 1), width=round(view.w, 1), height=view.h))
    drawn = []
    for edge in edges:
        points = lines[edge.source, edge.target].view.points
        moved = tuple((round(x + shift[edge.source], 1), round(y, 1)) for x, y in points)
        drawn.append(replace(edge, points=moved))
    ends = [*(node.x + node.width for node in put), *(x for edge in drawn for x, _ in edge.points)]
    right = max(ends, default=0.0)
    bottom = max((node.y + node.height for node in put), default=0.0)
    return Picture(nodes=tuple(put), edges=tuple(drawn), width=right, height=bottom)


def svg(picture: Picture) -> str:
    """Plain SVG: no script, no style sheet, readable on light and dark."""
    size = f'width="{picture.width + 20:.0f}" height="{picture.height + 20:.0f}"'
    view = f'viewBox="-10 -10 {picture.width + 20:.0f} {picture.height + 20:.0f}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="sans-serif" font-size="12" role="img">'
        '<defs><marker id="nbc-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#888"/></marker></defs>'
    )
    return head + "".join(map(_line, picture.edges)) + "".join(map(_rectangle, picture.nodes)) + "</svg>"


def _line(edge: Edge) -> str:
    path = " ".join(f"{x},{y}" for x, y in edge.points)
    drawn = f'<polyline points="{path}" fill="none" stroke="#888" stroke-width="1.4" marker-end="url(#nbc-arrow)"/>'
    if edge.label and edge.points:
        x, y = edge.points[len(edge.points) // 2]
        drawn += f'<text x="{x + 4}" y="{y - 4}" fill="#888" font-size="10">{escape(edge.label)}</text>'
    return drawn


def _rectangle(node: Node) -> str:
    colour, middle = _COLOURS.get(node.status, "#757575"), node.x + node.width / 2
    took = f"{node.status} · {say_duration(node.seconds)}" if node.seconds else node.status
    return (
        f"<g><title>{escape(node.label)}: {escape(took)}</title>"
        f'<rect x="{node.x}" y="{node.y}" width="{node.width}" height="{node.height}" rx="6" fill="{colour}" '
        f'fill-opacity="0.16" stroke="{colour}" stroke-width="{2.6 if node.critical else 1.2}"/>'
        f'<text x="{middle}" y="{node.y + 18}" text-anchor="middle" fill="currentColor">{escape(node.label)}</text>'
        f'<text x="{middle}" y="{node.y + 34}" text-anchor="middle" fill="{colour}" font-size="10">'
        f"{escape(took)}</text></g>"
    )
