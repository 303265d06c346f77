"""Renders documents as one self-contained HTML page: no scripts, nothing fetched, figures inline."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template

from dprl.platform.reports.documents.blocks import Block
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.figures.layout import compose
from dprl.platform.reports.figures.styles import render, style_of


def html(title: str, blocks: Sequence[Block]) -> str:
    """Return a page. title: for the browser's tab."""
    return _template().render(title=title, blocks=blocks, source=_source)


@cache  # each cell has a page
def _template() -> Template:
    text = (Path(__file__).parent / "page.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(text)


def _source(chart: Chart) -> str:
    """Return a chart as the address of an image that contains it."""
    drawn = render(compose(chart, style_of("page")), "svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
