"""`dprl plot`: one figure of a sweep, for a paper or for slides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from dprl.platform.commands.base import Storage, say, unwritable
from dprl.platform.errors import EXIT_DONE, broken_rule, suggestion

_Inches = Annotated[float | None, Parameter(help="in inches, e.g. 2.7: half a page (default: 5.5 wide, slides: 11)")]


def plot(
    first: Annotated[str, Parameter("SWEEP", help="the name of a sweep, or its folder")],
    /,
    *more: Annotated[str, Parameter("FIGURE", help="more sweeps, and last the figure: frontier, ...; none: list them")],
    style: Annotated[Literal["paper", "slides"], Parameter(help="sizes of text and lines")] = "paper",
    width: _Inches = None,
    height: _Inches = None,
    out: Annotated[
        str | None, Parameter(help="file to write, .pdf, .svg or .png (default: SWEEP_FIGURE.pdf in this folder)")
    ] = None,
    storage: Storage = None,
) -> int:
    """Draw one figure of one or more sweeps for a paper or for slides, and print its caption."""
    from dprl.atomic_files import write_bytes
    from dprl.platform.reports.charts import report_charts
    from dprl.platform.reports.drawing import FORMATS, draw, render, style_of
    from dprl.platform.results.cells import read_cells
    from dprl.platform.results.home import home_folder
    from dprl.platform.results.layout import sweep_layout

    kind = "pdf" if out is None else Path(out).suffix[1:].lower()
    if kind not in FORMATS:
        raise broken_rule("--out", "must end in .pdf, .svg or .png", out, "write e.g. --out figure.pdf")
    *names, figure = (first, *more) if more else (first, None)
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
    target = Path(f"{name}_{chart.name}.pdf" if out is None else out)
    content = render(draw(chart, style_of(style, width, height)), kind)
    try:
        write_bytes(target, content)
    except OSError as error:
        raise unwritable(target, error) from None
    say(f"figure    {target}")
    say(f"caption   {chart.title}. {chart.caption}")
    return EXIT_DONE
