"""Templates of pages, and sentences in text: jinja2, with numbers as in `number_texts`."""

from __future__ import annotations

import base64
import math
from functools import cache
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, Undefined
from markupsafe import Markup, escape

from dprl.platform.reports.number_texts import bound, delta_number, number

_HERE = Path(__file__).parent


@cache  # each cell has a page
def template(name: str) -> Template:
    """Return the template of a page in this folder: 'report' or 'certificate'."""
    found = _environment(pages=True)
    found.globals["style"] = Markup((_HERE / "report.css").read_text(encoding="utf-8"))
    return found.get_template(f"{name}.html.j2")


@cache
def text_template(name: str) -> Template:
    """Return a template of plain text in this folder."""
    return _environment(pages=False).get_template(f"{name}.j2")


def sentence(name: str, *values: object, **fields: object) -> str:
    """Return a sentence of `sentences.j2`, filled in."""
    return " ".join(str(getattr(text_template("sentences").module, name)(*values, **fields)).split())


def _environment(*, pages: bool) -> Environment:
    """Return jinja2's settings for pages or for sentences. Numbers may be texts, as infinity is in JSON."""
    found = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=pages,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined if pages else Undefined,  # a certificate may lack optional fields
    )
    found.globals["inf"] = math.inf
    found.tests["encoding"] = lambda mechanism: mechanism.endswith("_encoding")
    found.filters |= {
        "code": _with_code,
        "number": lambda value: number(float(value)),
        "bound": lambda value: bound(float(value)),
        "delta": lambda value: delta_number(float(value)),
        "general": "{:g}".format,
        "base64": lambda content: base64.b64encode(content).decode(),
        "as_config": lambda value: yaml.safe_dump(value).split("\n")[0],
    }
    return found


def _with_code(text: str) -> Markup:
    """Return a text as HTML, with words between backticks in a code font."""
    parts = [text] if isinstance(text, Markup) else text.split("`")
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if i % 2 else escape(part) for i, part in enumerate(parts))
