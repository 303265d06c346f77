"""Renders documents as one self-contained HTML page: no scripts, nothing fetched, figures inline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dprl.platform.reports.documents.blocks import Block, Figure, figures_in
from dprl.platform.reports.documents.stylesheet import colour_name, stylesheet
from dprl.platform.reports.figures.charts import Chart
from dprl.platform.reports.figures.colours import Shades
from dprl.platform.reports.figures.layout import compose
from dprl.platform.reports.figures.marks import label_colour, line_colour
from dprl.platform.reports.figures.styles import FRAME, render, style_of

_COLOUR = re.compile(r"((?:fill|stroke): )(#[0-9a-fA-F]{6})\b")
_HEAD = re.compile(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>')
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<style[^>]*>\*\{[^<]*</style>", re.DOTALL)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{{ title }}</title>
<style>{{ style }}</style>
</head>
<body>
{%- macro classes(names) %}{% if names %} class="{{ names }}"{% endif %}{% endmacro %}
{%- macro heading(block) %}
<h{{ block.level }}>{{ block.text }}</h{{ block.level }}>
{%- endmacro %}
{%- macro paragraph(block) %}
<p{{ classes(block.style) }}>{% if block.term %}<b>{{ block.term }}.</b> {% endif %}{{ block.text }}</p>
{%- endmacro %}
{%- macro figure(block) %}
<figure>
{{ draw(block) }}
<figcaption><p><b>{{ block.title }}.</b> {{ block.chart.caption }}</p></figcaption>
</figure>
{%- endmacro %}
{%- macro table(block) %}
<div {% if block.style.startswith("all") %}class="tall" tabindex="0"{% else %}class="box"{% endif %}>\
<table{{ classes(block.style) }}>
<thead><tr>
{%- for column in block.columns %}<th{{ classes(column.style) }}>{{ column.header }}</th>{% endfor -%}
</tr></thead>
<tbody>
{%- for line in block.body %}
<tr{{ classes(block.styles[loop.index0] if block.styles else "") }}>
{%- for cell in line %}{% set column = block.columns[loop.index0] -%}
{%- set missing = block.columns | length - line | length -%}
{%- if loop.last and missing %}<td class="none" colspan="{{ missing + 1 }}">{{ cell }}</td>
{%- else %}<td{{ classes(column.style) }}{% if column.label %} data-l="{{ column.label }}"{% endif %}>{{ cell }}</td>
{%- endif %}{% endfor %}</tr>
{%- endfor %}
</tbody></table></div>
{%- endmacro %}
{%- macro card(block) %}
<div class="card"><div class="ct">{{ block.title }}</div><div class="big">{{ block.big }}</div>
<div class="sub">{{ block.sub }}
{%- if block.interval %}<br>95% interval <span class="iv">{{ block.interval }}</span>{% endif %}</div>
<dl>
{%- for name, value in block.facts %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor -%}
</dl>{{ block.badge }}</div>
{%- endmacro %}
{%- macro facts(block) %}
{%- if block.title %}{{ heading({"level": 3, "text": block.title}) }}{% endif %}
<div class="facts">
{%- for name, text in block.facts %}
<div>{{ name }}<p>{{ text }}</p></div>
{%- endfor %}
</div>
{%- endmacro %}
{%- macro section(block) %}
{%- if block.folded %}
<details><summary>{{ block.folded }}</summary>{{ all(block.blocks) }}</details>
{%- else %}
<section{{ classes(block.style) }}{% if block.anchor %} id="{{ block.anchor }}"{% endif %}>{{ all(block.blocks) }}
</section>
{%- endif %}
{%- endmacro %}
{%- macro all(blocks) %}
{%- for block in blocks %}{{ macros[block.kind](block) }}{% endfor %}
{%- endmacro %}
{%- set macros = {"heading": heading, "paragraph": paragraph, "figure": figure, "table": table, "card": card,
"facts": facts, "section": section} %}
<main>
{{- all(blocks) }}
</main>
</body>
</html>
"""


def html(title: str, blocks: Sequence[Block], shades: Sequence[Shades] = ()) -> str:
    """Return a page. title: for the browser's tab. shades: the algorithms' colours, of classes p0, p1, ..."""
    charts = [figure.chart for figure in figures_in(blocks)]
    return _template().render(
        title=title,
        style=Markup(stylesheet(shades, _figure_colours(charts))),
        blocks=blocks,
        draw=_drawing,
    )


@cache  # each cell has a page
def _template() -> Template:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False).from_string(_PAGE)


def _drawing(figure: Figure) -> Markup:
    return Markup(inline_figure(figure.chart, f"f{figure.number}"))


def _figure_colours(charts: Sequence[Chart]) -> list[tuple[str, str]]:
    """Return the colours of frames, lines and labels of figures, on a light and on a dark page."""
    light, dark = style_of("page", "light"), style_of("page", "dark")
    lines = [line for chart in charts for line in chart.lines]
    drawn = dict.fromkeys((of(line, light), of(line, dark)) for line in lines for of in (line_colour, label_colour))
    return [*drawn, *FRAME.values()]


def inline_figure(chart: Chart, identifier: str) -> str:
    """Return a chart as an SVG element without a size of its own; its ids begin with `identifier`."""
    found = render(compose(chart, style_of("page")), "svg").decode()
    found = _DROPPED.sub("", found[found.index("<svg") :])
    head = _HEAD.search(found)
    box = head.group(1) if head is not None else "0 0 1 1"
    body = found[head.end() :] if head is not None else found
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{identifier}-", body)
    body = re.sub(r"xlink:href", "href", body)
    body = re.sub(r"\n\s*", "\n", body)
    body = _COLOUR.sub(lambda at: f"{at.group(1)}var({colour_name(at.group(2))},{at.group(2)})", body)
    return f'<svg role="img" viewBox="{box}" xmlns="http://www.w3.org/2000/svg">{body}'
