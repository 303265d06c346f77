"""`dprl plot`: one figure of a sweep, for a paper or for slides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from dprl.platform.commands.base import Storage, say, unwritable
from dprl.platform.errors import EXIT_DONE, broken_rule, suggestion

_Inches = Annotated[str | None, Parameter(help="e.g. 2.7 (half a page) or 14cm (default: 5.5 wide, slides: 11)")]


def plot(
    first: Annotated[str, Parameter("SWEEP", help="the name of a sweep, or its folder")],
    /,
    *more: Annotated[str, Parameter("FIGURE", help="more sweeps, and last the figure: frontier, ...; none: list them")],
    style: Annotated[Literal["paper", "slides"], Parameter(help="sizes of text and lines")] = "paper",
    width: _Inches = None,
    height: _Inches = None,
    format: Annotated[  # noqa: A002
        Literal["pdf", "svg", "png"] | None, Parameter(help="format (default: that of --out, else pdf)")
    ] = None,
    out: Annotated[str | None, Parameter(help="file to write (default: SWEEP_FIGURE.FORMAT in this folder)")] = None,
    storage: Storage = None,
) -> int:
    """Draw one figure of one or more sweeps for a paper or for slides, and print its caption."""
    sizes = {"width": _inches("width", width), "height": _inches("height", height)}
    file = None if out is None else Path(out)
    from dprl.atomic_files import write_bytes
    from dprl.platform.reports.charts import report_charts
    from dprl.platform.reports.drawing import FORMATS, draw, render, style_of
    from dprl.platform.results.cells import read_cells
    from dprl.platform.results.home import home_folder
    from dprl.platform.results.layout import sweep_layout

    kind = format or (file.suffix[1:].lower() if file is not None else "pdf")
    if kind not in FORMATS:
        raise broken_rule("--out", "must end in .pdf, .svg or .png", out, "or add --format pdf")
    *names, figure = (first, *more) if more else (first, None)
    ending = "" if file is None else file.suffix[1:].lower()
    if ending in FORMATS and ending != kind:
        raise broken_rule("--format", f"must be that of --out {out}", kind, "leave one of them out")
    home = home_folder(storage, written=False)
    layouts = [sweep_layout(home, name) for name in names]
    for layout in layouts:
        layout.require_finished()
    name = "_".join(layout.name for layout in layouts)
    charts = {chart.name: chart for chart in report_charts(read_cells(layouts))}
    if figure is None and charts:
        wide = max(map(len, charts))
        for chart in charts.values():
            say(f"{chart.name:{wide}}  {chart.title}")
        return EXIT_DONE
    if figure not in charts:
        remedy = suggestion(figure or "", list(charts)) if charts else "no cell has a headline to draw"
        raise broken_rule("FIGURE", f"must be a figure of {' and '.join(names)}", figure, remedy)
    chart = charts[figure]
    target = file if file is not None else Path(f"{name}_{chart.name}.{kind}")
    drawn = draw(chart, style_of(style, **sizes))
    content = render(drawn, kind)
    try:
        write_bytes(target, content)
    except OSError as error:
        raise unwritable(target, error) from None
    say(f"figure    {target}")
    say(f"caption   {chart.title}. {chart.caption}")
    return EXIT_DONE


def _inches(name: str, text: str | None) -> float | None:
    """Return the width or height in inches given by a text such as '5.5' or '14cm', None without one.

    Raises UserError.
    """
    from dprl.platform.reports.drawing import LENGTHS

    if text is None:
        return None
    number, unit = (text[:-2], 2.54) if text.endswith("cm") else (text.removesuffix("in"), 1.0)
    try:
        length = float(number) / unit
    except ValueError:
        length = math.nan
    if not LENGTHS[0] <= length <= LENGTHS[1]:
        rule = f"must be {LENGTHS[0]:g} to {LENGTHS[1]:g} inches"
        raise broken_rule(f"--{name}", rule, text, "write e.g. 5.5, 2.7 or 14cm")
    return length
