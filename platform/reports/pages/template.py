"""The HTML of a report, for jinja2: no scripts, nothing fetched, figures inline."""

from __future__ import annotations

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #111; max-width: 78rem; margin: 1.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #999; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
table { border-collapse: collapse; font-size: .82rem; margin: .4rem 0 1rem; }
th, td { padding: .2rem .55rem; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #555; } td.n, th.n { text-align: right; white-space: nowrap; }
td.short { white-space: nowrap; } nav a { margin-right: 1rem; }
tr.fails td { background: #f3f3f3; } tr.fails td.verdict { font-weight: bold; }
.missing { border: 2px solid #111; padding: .5rem .8rem; }
.note { color: #444; font-size: .85rem; } .wide { overflow-x: auto; }
img { max-width: 100%; height: auto; } code { font-size: .85rem; overflow-wrap: anywhere; }
.figures { display: flex; flex-wrap: wrap; } figure { margin: .4rem .8rem .8rem 0; max-width: 100%; }
figure.half { max-width: 48%; } figcaption { font-size: 1rem; font-weight: bold; }
@media print {
  body { max-width: none; font-size: 9pt; margin: 0; }
  tr, figure { break-inside: avoid; } h2, h3 { break-after: avoid; } .wide { overflow: visible; }
}
</style>
</head>
<body>
<h1>{{ title }}</h1>
{%- for line in missing %}
<p class="missing"><strong>Not finished.</strong> {{ line }}</p>
{%- endfor %}

<nav><a href="#answers">Answers</a> <a href="#figures">Figures</a> <a href="#cells">Cells</a> <a href="#tests">Tests</a>
<a href="#made">How this was made</a></nav>

<h2 id="answers">Which algorithm, at which epsilon</h2>
{%- for section in answers %}
<h3>{{ section.title }}: {{ section.amount }}, {{ section.good }}</h3>
{%- if section.saturated %}
<p class="note"><strong>Nothing was learned in {{ section.saturated }} of its {{ section.count }} cells</strong>:
{{ saturation }}; try {{ remedy }}.</p>
{%- endif %}
<div class="wide"><table>
<tr><th>within</th><th>best</th><th class="n">{{ section.metric }} [95 % interval]</th><th>next best</th></tr>
{%- for answer in section.rows %}
<tr><td class="short">{{ answer.need }}</td>
{%- if answer.best %}<td class="short">{{ answer.best }}</td><td class="n">{{ answer.value }}</td>
<td>{{ [answer.next_best, answer.cost and "privacy costs " + answer.cost, answer.note] | select | join("; ") }}</td>
{%- else %}<td colspan="3"><strong>{{ answer.note }}</strong></td>{% endif %}</tr>
{%- endfor %}
</table></div>
{%- endfor %}
<p class="note">Significant: Welch's test over seeds, adjusted by Holm for the comparisons of the group that are
declared in advance, so that the probability of any false difference in a group is at most 5 %. No significant
difference does not mean equal. Ratios are against the best cell, with 95 % intervals.</p>

<h2 id="figures">Figures</h2>
<p class="note">A curve stands under the &#949; that its noise <em>proves</em>, never under one that is only claimed.
Hollow markers: the claim fails. Without markers, grey among curves and level lines elsewhere: no privacy was asked
for.</p>
<div class="figures">
{%- for figure in figures %}
<figure{% if figure.half %} class="half"{% endif %}>
<figcaption>{{ figure.title }}</figcaption>
<img src="data:image/png;base64,{{ figure.data }}" alt="{{ figure.title }}">
</figure>
{%- endfor %}
</div>

<h2 id="cells">Cells</h2>
{%- for section in sections %}
<h3>{{ section.title }}{% if section.shared %} <span class="note">({{ section.shared }})</span>{% endif %}</h3>
<div class="wide"><table>
<tr>{% for column in section.columns %}<th class="{{ column.css }}">{{ column.header }}</th>{% endfor %}</tr>
{%- for row in section.rows %}
<tr{% if row.fails %} class="fails"{% endif %}>
{%- for text in row.texts %}<td class="{{ section.columns[loop.index0].css }}">{{ text }}</td>{% endfor %}</tr>
{%- endfor %}
</table></div>
{%- endfor %}

<h2 id="tests">Declared comparisons</h2>
{%- for section in tests %}
<h3>{{ section.title }}: best is {{ section.best }}</h3>
<div class="wide"><table>
<tr><th>cells</th><th class="n">ratio or difference [95 %]</th><th class="n">p (Welch)</th>
<th class="n">p (Holm, {{ section.family }})</th><th></th></tr>
{%- for row in section.rows %}
<tr><td>{{ row.name }}</td><td class="n">{{ row.difference }}</td><td class="n">{{ row.p_value }}</td>
<td class="n">{{ row.adjusted }}</td><td>{{ row.verdict }}</td></tr>
{%- endfor %}
</table></div>
{%- endfor %}
<p class="note">All of them: <code>comparisons.csv</code>. Declared are: the same privacy and noise, another algorithm;
the same algorithm and privacy, other noise; the same algorithm and noise, the next \u03b5. Positive losses are compared
on the log scale, by ratios of geometric means; where a seed is at 0, and scores, by differences of means.</p>

<h2 id="made">How this was made</h2>
<ul>
{%- for line in made %}
<li>{{ line }}</li>
{%- endfor %}
</ul>
<p class="note">Bands cover a whole curve at once with 95 % probability over seeds: the largest t statistic along the
curve, calibrated by a multiplier bootstrap of whole seeds' curves, never of single steps. Below 3 seeds there is no
band and no test; with 3 or 4 seeds bands of rough curves cover 80 to 90 % only. Tables have the geometric mean of a
positive loss with Student's interval of the mean log value, else the mean with Student's interval. Each group is a
family of tests of its own.</p>

<h2>Verdicts</h2>
<table>
{%- for word, meaning in verdicts %}
<tr><td><strong>{{ word }}</strong></td><td>{{ meaning }}</td></tr>
{%- endfor %}
</table>
</body>
</html>
"""
