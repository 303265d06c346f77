"""The HTML of a report, for jinja2: no scripts, nothing fetched, figures inline."""

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
{%- macro figure(one, number) %}
<figure>
{{ one.wide }}{{ one.narrow }}
<figcaption><p><b>Figure {{ number }}. {{ one.title }}.</b> {{ one.caption }}</p></figcaption>
</figure>
{%- endmacro %}
{%- macro budgets(table) %}
<div class="box"><table class="budgets">
<thead><tr><th>Budget</th><th>Trust and &#948;</th><th>Best algorithm</th><th class="n">{{ table.label }}</th>
{%- if table.costs %}<th class="n">Cost of privacy</th><th class="st">{{ table.ticks }}</th>{% endif %}
{%- if table.rivals %}<th>Next best</th>{% endif %}</tr></thead>
<tbody>
{%- for row in table.rows %}
<tr{% if row.first %} class="first"{% endif %}><td class="budget"><b{% if not row.first %} class="again"{% endif %}>\
{{ row.budget }}</b></td><td class="trust">{{ row.trust }}</td>
{%- if row.missing %}<td class="none" colspan="5">{{ row.missing }}</td>
{%- else %}<td class="best">{{ row.best }}{% if row.badge %} {{ row.badge }}{% endif %}
{%- if row.saturated %} <span class="tag">nothing was learned</span>{% endif %}</td>
<td class="n value" data-l="{{ table.label | lower }}">{{ row.value }}</td>
{%- if table.costs %}<td class="n cost">{{ row.cost }}</td><td class="st {{ row.css }}">{{ row.strip }}</td>{% endif %}
{%- if table.rivals %}<td class="next" data-l="next">{{ row.next }}</td>{% endif %}
{%- endif %}</tr>
{%- endfor %}
</tbody></table></div>
{%- if table.left_out %}
<p class="note">And {{ table.left_out }} further budgets, see <code>report.csv</code>.</p>
{%- endif %}
{%- if table.saturated %}
<p class="note"><b>Nothing was learned in {{ table.saturated }} of {{ table.count }} cells</b>: {{ saturation }}; try
{{ remedy }}.</p>
{%- endif %}
{%- endmacro %}
<main>
<header>
<p class="eyebrow">{% for word in eyebrow %}<span>{{ word }}</span>{% endfor %}</p>
{%- for line in missing %}
<p class="missing"><b>Not finished.</b> {{ line }}</p>
{%- endfor %}
<h1>{{ heading }}</h1>
{%- if lead %}
<p class="lead">{{ lead }}</p>
{%- endif %}
</header>
{%- for one in leading %}
{{ figure(one, loop.index) }}
{%- endfor %}

{%- if cards %}
<section id="cost">
<h2>{{ cards.title }}</h2>
<p class="note">{{ cards.note }}</p>
<div class="cards">
{%- for card in cards.cards %}
<div class="card"><div class="ct">{{ card.title }}</div><div class="big">{{ card.big }}</div>
<div class="sub">{{ card.sub }}
{%- if card.interval %}<br>95% interval <span class="iv">{{ card.interval }}</span>{% endif %}</div>
<dl>
{%- for name, value in card.rows %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor -%}
</dl>{{ card.badge }}</div>
{%- endfor %}
</div>
</section>
{%- endif %}

{%- if tables %}
<section id="budgets">
<h3>{{ tables[0].title }}</h3>
{{ budgets(tables[0]) }}
{%- for table in tables[1:] %}
<details><summary>{{ table.title }}</summary>{{ budgets(table) }}</details>
{%- endfor %}
{%- if tables_left_out %}
<p class="note">And {{ tables_left_out }} further groups of cells, see <code>report.csv</code>.</p>
{%- endif %}
</section>
{%- endif %}

{%- if later %}
<section id="curves">
<h2>{{ later[0].title }}</h2>
{{ figure(later[0], leading | length + 1) }}
{%- for one in later[1:] %}
<details><summary>{{ one.title }}</summary>{{ figure(one, leading | length + loop.index + 1) }}</details>
{%- endfor %}
</section>
{%- endif %}

{%- if claims %}
<section id="claims">
<h2>Do the claims hold?</h2>
<div class="verdicts">
{%- for claim in claims %}
<div>{{ claim.badge }}<p>{{ claim.meaning }} <b>{{ claim.count }}{{ ":" if claim.kinds else "." }}</b>
{%- if claim.kinds %} {{ claim.kinds }}.{% endif %}</p></div>
{%- endfor %}
</div>
</section>
{%- endif %}

<section id="cells">
<h2>{{ cells_title }}</h2>
{%- for table in cell_tables %}
{%- if table.title %}
<h3>{{ table.title }}</h3>
{%- endif %}
<div class="tall" tabindex="0"><table class="all{% if table.stacked %} stacked{% endif %}">
<thead><tr>
{%- for column in table.columns %}<th class="{{ column.css }}">{{ column.header }}</th>{% endfor -%}
</tr></thead>
<tbody>
{%- for row in table.rows %}
<tr{% if row.free %} class="none"{% endif %}>
{%- for text in row.texts %}<td class="{{ table.columns[loop.index0].css }}">{{ text }}</td>{% endfor %}</tr>
{%- endfor %}
</tbody></table></div>
{%- if table.note %}
<p class="note">{{ table.note }}</p>
{%- endif %}
{%- if table.left_out %}
<p class="note">The best cells. {{ "{:,}".format(table.left_out) }} further ones are in <code>report.csv</code>.</p>
{%- endif %}
{%- endfor %}
</section>

<section class="small" id="methods">
<h2>Methods</h2>
{%- for name, text in methods %}
<p><b>{{ name }}.</b> {{ text }}</p>
{%- endfor %}
{%- for line in made %}
<p>{{ line }}</p>
{%- endfor %}
<p><b>Regenerate.</b> <code>{{ command }}</code></p>
</section>
</main>
</body>
</html>
"""
