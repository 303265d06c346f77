"""The style sheet of a report: one page from 400 to 1600 pixels, light, dark and in grey print."""

from __future__ import annotations

from collections.abc import Iterable

from dprl.platform.reports.figures.colours import HUES, NEUTRAL, NO_PRIVACY, Shades

_FRAME = {
    "bg": ("#FFFFFF", "#131416"),
    "ink": ("#1D1D1F", "#E9EAEC"),
    "muted": ("#5F6368", "#A3A8AE"),
    "line": ("#E3E5E8", "#33363A"),
    "rule": ("#ECEEF0", "#26282B"),
    "axis": ("#6B6F75", "#8D9299"),
    "panel": ("#F7F8F9", "#1B1D20"),
    "holds": ("#00704F", "#4AD3A8"),
    "delta": ("#7A5300", "#F5C464"),
    "delta-bg": ("#FFF4DB", "#33280F"),
    "fails": ("#FFFFFF", "#1B0505"),
    "fails-bg": ("#A61B1B", "#FF8A80"),
}
"""Colours of everything but algorithms, on a light and on a dark page."""


def colour_name(colour: str) -> str:
    """Return the CSS variable of a light page's colour '#RRGGBB' and its counterpart on a dark page."""
    return f"--c{colour.lstrip('#').upper()}"


def stylesheet(algorithms: Iterable[Shades], figures: Iterable[tuple[str, str]]) -> str:
    """Return the style sheet.

    algorithms: their shades, of classes p0, p1, ... figures: pairs of colours in figures, on a light and a dark page.
    """
    pairs = {light.upper(): dark for light, dark in (*figures, *_pairs())}
    colours = {colour_name(light): (light, dark) for light, dark in pairs.items()}
    colours |= {f"--{name}": pair for name, pair in _FRAME.items()}
    light, dark = (";".join(f"{name}:{pair[i]}" for name, pair in colours.items()) for i in range(2))
    classes = "".join(
        f".p{i}{{color:var({colour_name(shades.line)})}}.nm.p{i}{{color:var({colour_name(shades.text)})}}"
        for i, shades in enumerate(algorithms)
    )
    free = f".free{{color:var({colour_name(NO_PRIVACY.line)})}}"
    return (
        f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{_RULES}{classes}{free}"
    )


def _pairs() -> list[tuple[str, str]]:
    every = (*HUES, NO_PRIVACY, NEUTRAL)
    return [pair for each in every for pair in ((each.line, each.dark_line), (each.text, each.dark_text))]


_RULES = """\
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;color-scheme:light dark}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 -apple-system,"Segoe UI",Roboto,"Helvetica Neue",\
Arial,"Liberation Sans",system-ui,sans-serif;font-variant-numeric:tabular-nums lining-nums}
main{max-width:1140px;margin:0 auto;padding:28px 20px 64px}
h1{font-size:clamp(24px,3.3vw,34px);line-height:1.2;letter-spacing:-.015em;margin:0 0 12px;text-wrap:balance;\
overflow-wrap:anywhere}
h2{font-size:21px;line-height:1.3;letter-spacing:-.01em;margin:52px 0 8px}
h3{font-size:15px;margin:30px 0 8px;overflow-wrap:anywhere}
.eyebrow{margin:0 0 10px;font-size:13px;color:var(--muted);overflow-wrap:anywhere}
.eyebrow span+span::before{content:"\\b7";margin:0 .5em}
.missing{margin:0 0 12px;padding:8px 12px;border:1.5px solid var(--ink);border-radius:4px;font-size:13.5px;\
overflow-wrap:anywhere}
.lead{font-size:clamp(16px,1.6vw,18.5px);line-height:1.5;margin:0 0 18px;max-width:60em;overflow-wrap:anywhere}
.note,figcaption{color:var(--muted);font-size:14px}.note{margin:0 0 14px;max-width:62em}
figure{margin:0 0 8px}figcaption p{margin:6px 0 0;max-width:62em}figcaption b{color:var(--ink)}
figure{overflow-x:auto}figure>svg{display:block;width:100%;height:auto}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(225px,100%),1fr));gap:14px}
.card{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:14px 18px 12px;min-width:0}
.card .ct{font-weight:600;font-size:15px}
.card .big{font-size:40px;line-height:1.15;font-weight:600;letter-spacing:-.02em;margin-top:4px}
.card .sub{font-size:13.5px;color:var(--muted)}
.card dl{display:grid;grid-template-columns:auto minmax(0,1fr);gap:3px 14px;margin:10px 0 0;padding-top:9px;\
border-top:1px solid var(--line);font-size:14px}
dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
.iv{color:var(--muted);white-space:nowrap}
.nm{font-weight:600}.nm,.one{white-space:nowrap}
small{font-weight:400;font-size:12.5px;color:var(--muted);white-space:normal;overflow-wrap:anywhere}
svg.sw{width:26px;height:12px;margin-right:8px;vertical-align:-1px;overflow:visible;fill:none;stroke:currentColor;\
stroke-width:2}
svg.sw .mk{fill:currentColor;stroke:var(--bg);stroke-width:1}
svg.strip{width:112px;height:16px;display:block;overflow:visible}
svg.strip text{font:10.5px sans-serif;fill:var(--muted);text-anchor:middle}
svg.strip path{stroke:currentColor;stroke-width:1.4}svg.strip .grid{stroke:var(--line);stroke-width:1}
svg.strip circle{fill:currentColor}
.box{overflow-x:auto;-webkit-overflow-scrolling:touch}
.tall{max-height:520px;overflow:auto;border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:14px;line-height:1.4}
th,td{text-align:left;padding:6px 12px;white-space:nowrap;border-bottom:1px solid var(--rule)}
th{font-weight:600;font-size:13px;color:var(--muted);border-bottom:1px solid var(--axis)}
th.n,td.n{text-align:right}td.wrap{white-space:normal;min-width:11em}
.budgets{font-size:13.5px}.budgets th,.budgets td{padding-left:9px;padding-right:9px}
.budgets td.best,.budgets td.next{white-space:normal}
.best small,.next small,.card small{display:block;max-width:24em}
.budgets th:first-child,.budgets td:first-child{padding-left:0}
.budgets th:last-child,.budgets td:last-child{padding-right:0}
.budgets .again{visibility:hidden}.budgets tr.first td{border-top:1px solid var(--line)}
.tag{display:inline-block;font-size:12.5px;color:var(--muted);border:1px dashed var(--axis);border-radius:4px;\
padding:0 6px;white-space:nowrap}
.all{font-size:13.5px}.all th,.all td{padding:5px 9px}.stacked .iv{display:block}\
.all.stacked th,.all.stacked td{padding:5px 7px}.stacked td.word{white-space:normal}\
.stacked td.wrap{min-width:7em;overflow-wrap:anywhere}
.all th{white-space:normal;vertical-align:bottom;line-height:1.25}
.all thead th{position:sticky;top:0;background:var(--panel);z-index:1;border-bottom:0;\
box-shadow:inset 0 -1px 0 var(--axis)}
.all tr.none td{background:var(--panel)}
details{margin-top:12px;border-top:1px solid var(--line);padding-top:8px}
summary{cursor:pointer;font-weight:600;font-size:14.5px;padding:4px 0;overflow-wrap:anywhere}
details[open]>summary{margin-bottom:10px}
.badge{display:inline-flex;align-items:center;gap:5px;font-size:12.5px;line-height:1.2;font-weight:600;\
padding:2.5px 8px 2.5px 6px;border-radius:999px;border:1.5px solid;white-space:nowrap}
.badge svg{width:12px;height:12px;flex:none;fill:none;stroke:currentColor;stroke-width:1.8;stroke-linecap:round;\
stroke-linejoin:round;overflow:visible}
.badge.holds{color:var(--holds);border-color:currentColor}
.badge.delta{color:var(--delta);border-style:dashed;background:var(--delta-bg)}.badge.delta svg{stroke-width:1.3}
.badge.fails{color:var(--fails);background:var(--fails-bg);border-color:var(--fails-bg);border-radius:4px}
.badge.refuted{color:var(--fails-bg);background:var(--bg);border:3px double var(--fails-bg);border-radius:0}
.badge.nothing{color:var(--bg);background:var(--ink);border-color:var(--ink);border-radius:4px}
.badge.reference{color:var(--muted);border-color:transparent;padding-left:0}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(215px,100%),1fr));gap:16px 24px;margin-top:14px}
.facts>div{min-width:0}.facts+.note{margin-top:14px}
.facts p{margin:8px 0 0;font-size:14px;color:var(--muted);overflow-wrap:anywhere}.facts b{color:var(--ink)}
.small{font-size:13.5px;color:var(--muted);line-height:1.5}
.small p{margin:0 0 8px;max-width:64em;overflow-wrap:anywhere}.small b,.small h2{color:var(--ink)}
code{font:12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;background:var(--panel);\
border:1px solid var(--line);border-radius:4px;padding:1px 5px;overflow-wrap:anywhere;color:var(--ink)}
a{color:inherit}
.card .big .badge,.card .big small{display:inline-flex;vertical-align:middle;margin-left:10px;letter-spacing:0}
.halves td,.details td{vertical-align:top}.halves td.wrap{overflow-wrap:anywhere}
.bounds{width:auto}.halves td,.halves th{width:50%}
@media (max-width:960px){.budgets .st{display:none}.budgets{font-size:13px}
.budgets th,.budgets td{padding-left:6px;padding-right:6px}.budgets th{font-size:12.5px}}
@media screen and (max-width:719px){
main{padding:18px 16px 48px}h2{margin-top:40px}figure>svg{min-width:720px}
.budgets,.budgets tbody{display:block}.budgets thead{display:none}
.budgets tr{display:grid;grid-template-columns:minmax(0,1fr) auto;gap:1px 10px;padding:8px 0 9px;\
border-top:1px solid var(--line)}
.budgets tr.first{border-top:2px solid var(--axis)}
.budgets td,.budgets tr.first td{display:block;border:0;padding:0;white-space:normal;text-align:left}
.budgets td.st{display:none!important}.budgets .again{visibility:visible}
.budgets td.trust,.budgets td.cost{text-align:right;justify-self:end;max-width:15em}
.budgets td.budget{order:1}.budgets td.trust{order:2;color:var(--muted)}.budgets td.best{order:3}
.budgets td.cost{order:4;white-space:nowrap}
.budgets td.value,.budgets td.next,.budgets td.none{grid-column:1/-1;font-size:13px}
.budgets td.value{order:5}.budgets td.next{order:6}
.budgets td.value::before,.budgets td.next:not(:empty)::before{content:attr(data-l) " ";color:var(--muted)}
.bounds th,.bounds td{padding-left:5px;padding-right:5px}.bounds th{white-space:normal}.bounds td.wrap{min-width:0}
.halves thead{display:none}.halves tr{display:block;padding:8px 0;\
border-bottom:1px solid var(--line)}
.halves td,.halves td:nth-child(n){display:block;width:auto;border:0;padding:2px 0;\
text-align:left}
.halves td:first-child{font-weight:600}
.halves td[data-l]::before{content:attr(data-l) " ";color:var(--muted)}
.tall{max-height:420px}
.all th:first-child,.all td:first-child{position:sticky;left:0;background:var(--bg);z-index:1}
.all thead th:first-child{background:var(--panel);z-index:2}.all tr.none td:first-child{background:var(--panel)}
}
@media print{
@page{margin:14mm}
body{font-size:10pt}main{max-width:none;padding:0}h1{font-size:19pt}.lead{font-size:10.5pt}
h2{font-size:14pt;margin-top:20pt}h3{font-size:11pt}.note,figcaption,.facts p,.small{font-size:8.5pt}
figure,.card,.facts>div,tr{break-inside:avoid}h2,h3{break-after:avoid}
.tall{max-height:none;overflow:visible;border:0}.box{overflow:visible}
.cards{grid-template-columns:repeat(3,minmax(0,1fr));gap:8px}.card{padding:8px 10px}.card .big{font-size:24pt}
.card .sub,.card dl{font-size:8.5pt}.facts{grid-template-columns:repeat(4,minmax(0,1fr))}
.budgets{font-size:7pt}.budgets th,.budgets td{padding:2pt 3pt;font-size:7pt}.tag{font-size:6.4pt;padding:0 2pt}
.all{font-size:6.6pt;line-height:1.25}.all th,.all td{padding:1.5pt 3pt;font-size:6.6pt;white-space:normal}
.all thead th{position:static}.all .badge{font-size:6.2pt;padding:0 3pt}svg.sw{width:16px;margin-right:3px}
.halves,.bounds,.details{font-size:8.5pt}
.halves code{font-size:7.5pt}.halves td,.bounds td,.details td{padding:2.5pt 5pt}
svg.strip{width:80px}details:not([open]){display:none}
.badge{-webkit-print-color-adjust:exact;print-color-adjust:exact}
}
"""
