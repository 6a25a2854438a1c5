"""What the benchmarks have found, as tables."""

from __future__ import annotations

from collections.abc import Callable

import bench_measure as measure
from rich.console import Console
from rich.table import Table

OURS = "nbcheckpoint"


def amount(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 0.1 else f"{seconds * 1000:.2f} ms"


def show_timings(console: Console, report: measure.Report) -> None:
    table = Table(title="All that was measured (median of interleaved rounds)", title_justify="left")
    for heading in ("", "median", "min … max", "rounds", "x of nbcheckpoint", "note"):
        table.add_column(heading, justify="left" if heading in ("", "note") else "right")
    section = ""
    for timing in report.timings:
        if timing.section != section:
            section = timing.section
            table.add_section()
            table.add_row(f"[bold]{section}[/]")
        ours = [t for t in report.timings if t.section == section and t.contender == OURS]
        ratio = f"{timing.median / ours[0].median:,.2f}" if ours and ours[0].median else ""
        show = _unit(section)
        low, high = min(timing.samples), max(timing.samples)
        spread = f"{show(low)} … {show(high)}"
        table.add_row(
            f"  {timing.contender}", show(timing.median), spread, str(len(timing.samples)), ratio, timing.note
        )
    console.print(table)


def _unit(section: str) -> Callable[[float], str]:
    if "multiple" in section:
        return lambda value: f"{value:.2f}x"
    return (lambda value: f"{value:.0f} MB") if section.endswith("MB") else amount


def show_verdicts(console: Console, report: measure.Report) -> None:
    table = Table(title="The bars of DESIGN.md section 11", title_justify="left")
    for heading in ("work", "measured", "bar", "", ""):
        table.add_column(heading, justify="right" if heading in ("measured", "bar") else "left")
    for verdict in report.verdicts:
        unit = verdict.unit if verdict.unit == "x" else f" {verdict.unit}"
        measured = f"{verdict.measured:,.3g}" if verdict.measured < 100 else f"{verdict.measured:,.0f}"
        met = "[green]met[/]" if verdict.met else "[red bold]NOT MET[/]"
        table.add_row(verdict.work, measured + unit, f"{verdict.sense} {verdict.bar:g}{unit}", met, verdict.how)
    console.print(table)
