"""The HTML of a document, for jinja2: no scripts, nothing fetched, figures inline."""

from __future__ import annotations

PAGE = """\
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
