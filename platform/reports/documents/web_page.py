"""Renders documents as one self-contained HTML page: no scripts, nothing fetched, figures inline."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

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
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["code"] = _with_code
    return environment.from_string(text)


def _with_code(text: str) -> Markup:
    """Return a text as HTML, with words between backticks in a code font."""
    parts = [text] if isinstance(text, Markup) else text.split("`")
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if i % 2 else escape(part) for i, part in enumerate(parts))


def _source(chart: Chart) -> str:
    """Return a chart as the address of an image that contains it."""
    drawn = render(compose(chart, style_of("page")), "svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
