"""Parts of all figures: colours that the colour-blind can tell apart, curves with bands, axes, title and legend."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dprl.platform.reports.figures.colours import BLACK, BLUE, GREEN, ORANGE, PINK, SKY, VERMILION
from dprl.platform.reports.inference.intervals import CONFIDENCE

COLOURS = tuple(hue.line for hue in (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK))
"""For lines that are no algorithms, as the metrics of one cell and the mechanisms of a paper."""
BAND = f"{CONFIDENCE:.0%} t band over seeds"
TITLE_SIZE, LEGEND_SIZE = 10, 9
_LINEAR_SPAN = 30.0
"""Largest ratio of two means whose smaller one can still be read off a linear axis."""
_NEGLIGIBLE = 1e-6
"""Share of the largest mean below which one counts as zero: exact values differ by roundings."""
_LOG_MARGIN = 1.6
_FEW_DECADES = 100.0
"""Ratio of the ends of a logarithmic axis up to which it is labelled between powers of ten."""
_SMALLEST = 0.1
"""Share of the smallest mean down to which a logarithmic axis follows the ends of the intervals."""
_DPI = 110
_COMPRESSION = 3
"""Of zlib's 9 levels; with the usual 6 a figure takes a tenth longer, for a twentieth fewer bytes."""
_HANDLE_LENGTH = 4.0
"""In font sizes: dashes must be seen in the legend, beside a marker."""
_LETTERS_PER_INCH = 10.5
"""Of the titles' font, so many at most."""
_MOST_LEGEND_COLUMNS = 9
_TICKS = 5
_TITLE_LINE, _LEGEND_ROW = 0.17, 0.2
"""Heights in inches."""


class Margins(NamedTuple):
    """Room around panels and between two of them, in inches.

    Given where it is known beforehand: finding it takes matplotlib more than half of a figure's time.
    """

    left: float
    right: float
    bottom: float
    top: float
    between: float

    def apply(self, figure: Figure, across: int) -> None:
        """Place the panels of `figure`, one row of `across`, within its present size."""
        width, height = figure.get_size_inches()
        panel = (width - self.left - self.right - self.between * (across - 1)) / across
        figure.subplots_adjust(
            left=self.left / width,
            right=1.0 - self.right / width,
            bottom=self.bottom / height,
            top=1.0 - self.top / height,
            wspace=self.between / panel,
        )


class ValueAxis(NamedTuple):
    """The scale of values that are at least 0: means far apart get a logarithmic one.

    least: the smallest mean above zero. floor: where intervals are cut off below; no regret and no gap is negative,
    a bound that the t interval does not know, and a logarithmic axis does not reach zero.
    """

    scale: str
    least: float
    floor: float

    @classmethod
    def of(cls, means: np.ndarray) -> ValueAxis:
        """Choose for the means of one panel, float64[n]."""
        positive = means[means > max(0.0, _NEGLIGIBLE * float(means.max()))]
        least = float(positive.min()) if len(positive) else 0.0
        if not len(positive) or positive.max() <= _LINEAR_SPAN * least:
            return cls("linear", least, 0.0)
        return cls("symlog", least, 0.0) if len(positive) < len(means) else cls("log", least, _SMALLEST * least)

    def apply(self, axes: Axes, what: str, unit: str, means: np.ndarray, lower: np.ndarray) -> None:
        """Set scale, lower limit and label of `axes` that have these means with these lower ends."""
        told = {"linear": "", "symlog": f", linear below {self.least:.1g}", "log": ", log"}[self.scale]
        axes.set_ylabel(f"{what} ({unit}{told})")
        if self.scale == "linear":
            # A little below zero and above the highest, so that what lies on an edge is seen.
            highest = axes.get_ylim()[1]
            axes.set_ylim(-0.03 * highest, 1.03 * highest)
        elif self.scale == "symlog":
            axes.set_yscale("symlog", linthresh=self.least)
            axes.set_ylim(min(means.min(), 0.0) - _SMALLEST * self.least, axes.get_ylim()[1] * _LOG_MARGIN)
        else:
            axes.set_yscale("log")
            axes.set_ylim(bottom=min([self.least, *lower[lower > self.floor]]) / _LOG_MARGIN)
            low, high = axes.get_ylim()
            # Within a decade or two powers of ten label a place or none.
            near = high <= _FEW_DECADES * low
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if near else (1.0,)))
            axes.yaxis.set_minor_locator(NullLocator())
            if near:
                axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def draw_curve(
    axes: Axes,
    points: pd.DataFrame,
    ends: tuple[float, float],
    alpha: float,
    **style: Any,  # noqa: ANN401
) -> None:
    """Draw a curve over episodes with its band, if it has one.

    points: as `records.curve` gives them. ends: where the band is cut off. alpha: of the band, 0 for none.
    """
    (line,) = axes.plot(points["episode"], points["mean"], **style)
    if alpha == 0.0 or points["lower"].isna().all():
        return
    lower = np.minimum(points["lower"].clip(lower=ends[0]), points["mean"])
    upper = points["upper"].clip(upper=ends[1])
    axes.fill_between(points["episode"], lower, upper, color=line.get_color(), alpha=alpha, lw=0)


def few_ticks(axes: Axes) -> None:
    """Have about five ticks over whole numbers x and on a linear y axis: they take most of a figure's time."""
    for axis in (axes.xaxis, axes.yaxis):
        whole = axis is axes.xaxis
        if axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10], integer=whole))
        elif whole:
            axis.set_major_locator(LogLocator(numticks=_TICKS + 1))
            axis.set_minor_locator(NullLocator())


def put_legend(figure: Figure, labels: Mapping[str, Any], together: int = 1) -> None:
    """Put the legend below the panels, in as many rows as its names need.

    together: so many of them stand below each other each time.
    """
    shown = [wrapped(name, figure.get_figwidth() - 1.0) for name in labels]
    units = len(labels) // together
    for columns in range(min(_MOST_LEGEND_COLUMNS, units), 0, -1):
        # A legend shares its names among the columns as evenly as it can, so what stands together needs full columns.
        blanks = 0 if together == 1 else -units % columns * together
        legend = figure.legend(
            [*labels.values(), *[Line2D([], [], ls="")] * blanks],
            [*shown, *[""] * blanks],
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=LEGEND_SIZE,
            handlelength=_HANDLE_LENGTH,
        )
        if columns == 1 or legend.get_window_extent().width < figure.bbox.width:
            rows = math.ceil(sum(name.count("\n") + 1 for name in [*shown, *[""] * blanks]) / columns)
            figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * rows)
            return
        legend.remove()


def put_title(figure: Figure, lines: Sequence[str]) -> float:
    """Put `lines` above the panels, broken where the figure ends; return the height of them in inches."""
    text = "\n".join(wrapped(line, figure.get_figwidth()) for line in lines)
    height = _TITLE_LINE * (text.count("\n") + 1)
    figure.set_figheight(figure.get_figheight() + height)
    figure.suptitle(text, fontsize=TITLE_SIZE)
    return height


def wrapped(text: str, inches: float) -> str:
    """Return `text` broken into lines of that width."""
    return textwrap.fill(text, int(_LETTERS_PER_INCH * inches), break_on_hyphens=False)


def listed(words: Sequence[str]) -> str:
    """Return 'a, b and c'."""
    *others, last = words
    return " and ".join([", ".join(others), last] if others else [last])


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG."""
    figure.set_dpi(_DPI)
    content = io.BytesIO()
    # Not by savefig, which finds a layout twice.
    FigureCanvasAgg(figure).print_png(content, pil_kwargs={"compress_level": _COMPRESSION})  # type: ignore[no-untyped-call]
    return content.getvalue()
