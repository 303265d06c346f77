"""Figures inside a page: SVG with the colours of the page's theme, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dprl.platform.reports.documents.stylesheet import colour_name
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.figures.layout import compose
from dprl.platform.reports.figures.marks import line_colour
from dprl.platform.reports.figures.styles import FRAME, Style, render, style_of

_COLOUR = re.compile(r"((?:fill|stroke): )(#[0-9a-fA-F]{6})\b")
_HEAD = re.compile(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>')
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<style[^>]*>\*\{[^<]*</style>", re.DOTALL)


def figure_colours(charts: Sequence[Chart]) -> list[tuple[str, str]]:
    """Return the colours of frames and of lines of figures, on a light and on a dark page."""
    light, dark = style_of("page", "light"), style_of("page", "dark")
    lines = [line for chart in charts for line in chart.lines]
    drawn = dict.fromkeys((line_colour(line, light), line_colour(line, dark)) for line in lines)
    return [*drawn, *FRAME.values()]


def inline_figure(chart: Chart, identifier: str) -> tuple[str, str]:
    """Return a chart as two SVG elements, for wide and for narrow pages; their ids begin with `identifier`."""
    wide, narrow = style_of("page"), style_of("phone")
    return _element(chart, wide, "wide", f"{identifier}w"), _element(chart, narrow, "narrow", f"{identifier}n")


def _element(chart: Chart, style: Style, css: str, identifier: str) -> str:
    """Return a chart in one style as an SVG element without a size of its own."""
    found = render(compose(chart, style), "svg").decode()
    found = _DROPPED.sub("", found[found.index("<svg") :])
    head = _HEAD.search(found)
    box = head.group(1) if head is not None else "0 0 1 1"
    body = found[head.end() :] if head is not None else found
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{identifier}-", body)
    body = re.sub(r"xlink:href", "href", body)
    body = re.sub(r"\n\s*", "\n", body)
    body = _COLOUR.sub(lambda at: f"{at.group(1)}var({colour_name(at.group(2))},{at.group(2)})", body)
    return f'<svg class="{css}" role="img" viewBox="{box}" xmlns="http://www.w3.org/2000/svg">{body}'
