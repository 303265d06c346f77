"""Renders documents as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dprl.platform.reports.documents.blocks import Block, Figure, figures_in
from dprl.platform.reports.documents.inline_figures import figure_colours, inline_figure
from dprl.platform.reports.documents.stylesheet import stylesheet
from dprl.platform.reports.documents.template import PAGE
from dprl.platform.reports.figures.colours import Shades


def html(title: str, blocks: Sequence[Block], shades: Sequence[Shades] = ()) -> str:
    """Return a page. title: for the browser's tab. shades: the algorithms' colours, of classes p0, p1, ..."""
    charts = [figure.chart for figure in figures_in(blocks)]
    return _template().render(
        title=title,
        style=Markup(stylesheet(shades, figure_colours(charts))),
        blocks=blocks,
        draw=_drawing,
    )


@cache  # each cell has a page
def _template() -> Template:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False).from_string(PAGE)


def _drawing(figure: Figure) -> Markup:
    """Return the figure twice, for wide and for narrow screens."""
    return Markup("").join(map(Markup, inline_figure(figure.chart, f"f{figure.number}")))
