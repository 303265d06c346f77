"""Templates of pages: jinja2 with one stylesheet."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from dprl.platform.reports.verdicts import BADGES


@cache  # each cell has a page
def template(name: str) -> Template:
    """Return the template of a page in this folder: 'report' or 'certificate'."""
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters["code"] = _with_code
    environment.globals |= {"style": Markup((here / "report.css").read_text(encoding="utf-8")), "badge": badge}
    return environment.get_template(f"{name}.html.j2")


def _with_code(text: str) -> Markup:
    """Return a text as HTML, with words between backticks in a code font."""
    parts = [text] if isinstance(text, Markup) else text.split("`")
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if i % 2 else escape(part) for i, part in enumerate(parts))


def badge(key: str) -> Markup:
    """Return the badge of a verdict."""
    return Markup('<span class="badge {}">{}</span>').format(key, BADGES[key][0])
