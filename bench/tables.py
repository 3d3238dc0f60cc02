"""Figures of several rounds become medians, ratios and a Markdown table.

Pure: nothing is measured and nothing is printed here.
"""

from collections.abc import Mapping, Sequence
from statistics import median

Figures = Mapping[str, float]


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """Take the median of each figure."""
    return {name: median(figures[name] for figures in rounds) for name in rounds[0]}


def ratio(name: str, rounds: Sequence[Figures], base: Sequence[Figures]) -> float:
    """Take the median of the rounds' own ratios: what slows a whole round down slows both sides of it."""
    return median(ours[name] / theirs[name] for ours, theirs in zip(rounds, base, strict=True) if theirs[name])


def number(value: float) -> str:
    """Show as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lay out a Markdown table: names to the left, figures to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1)]
    lines += [[number(cell) if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
