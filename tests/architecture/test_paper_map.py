"""docs/paper_map.md and the code name each other: equations, functions, tests and numbered deviations."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

from tests.architecture.test_code import TOP_FOLDERS, sources

MAP = "docs/paper_map.md"
KEY = re.compile(r"\[([A-Z]{2}\d{2})\]")
PLACE = re.compile(
    r"\b(eq|sec|App|Algorithm|Lemma|Theorem|Corollary|Proposition|Definition|Remark|Assumption|Table|Figure)"
    r"s?\.? +((?:\(\d+\w?\)|[A-Z]?\d+(?:\.\d+)*)(?:(?:, | and )(?:\(\d+\w?\)|\d+(?:\.\d+)*))*)"
)
POINTER = re.compile(r"`([\w./]+\.py)::([\w.]+)`")
DEVIATION = re.compile(r"\bD\d+\b")
Reference = tuple[str, str, str]


def references(text: str) -> set[Reference]:
    """Return every (paper, kind, number) that the text names, as in `[CZ22] eq. (1), Lemmas 1 and 2`."""
    found = set()
    parts = KEY.split(text)[1:]
    for paper, rest in zip(parts[::2], parts[1::2], strict=True):
        for kind, numbers in PLACE.findall(rest.partition(";")[0]):
            found |= {(paper, kind, number) for number in re.split(r", | and ", numbers)}
    return found


@cache
def docstrings(source: str) -> list[str]:
    """Return every docstring of a module."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(source))
    return [ast.get_docstring(node) or "" for node in nodes if isinstance(node, holders)]


def cited(source: str) -> set[Reference]:
    """Return what the `Paper:` paragraphs of a module cite."""
    paragraphs = (part for text in docstrings(source) for part in text.split("\n\n") if "Paper: " in part)
    return {found for part in paragraphs for found in references(" ".join(part.split("Paper: ", 1)[1].split()))}


def deviations(source: str) -> set[str]:
    """Return the deviation numbers in a module's comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return {number for text in (*comments, *docstrings(source)) for number in DEVIATION.findall(text)}


@cache
def defined(source: str) -> set[str]:
    """Return the dotted names of a module's functions, classes, methods and constants."""
    names = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    visit(ast.parse(source).body, "")
    return names


def rows(text: str) -> list[list[str]]:
    """Return the cells of the map's table rows, without headers and rulers."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if not set("".join(row)) <= set("-: ")]


def test_the_map_leads_to_functions_and_tests_that_exist(root: Path) -> None:
    """There are no `path::name` entries of the map that do not exist."""
    complaints = []
    for path, name in POINTER.findall((root / MAP).read_text()):
        if not (root / path).is_file():
            complaints.append(f"{MAP}: there is no {path}")
        elif name not in defined((root / path).read_text()):
            complaints.append(f"{MAP}: {path} has no {name}")
    assert complaints == []


def test_what_the_code_cites_is_in_the_map(root: Path) -> None:
    """There are no citations of the code that the map does not list, and deviations that only one of them has."""
    text = (root / MAP).read_text()
    mapped = {reference for row in rows(text) for reference in references(row[0])}
    listed = {number for row in rows(text) for number in DEVIATION.findall(row[0])}
    complaints, used = [], set()
    for path, source in sources(root, TOP_FOLDERS):
        for paper, kind, number in sorted(cited(source) - mapped):
            complaints.append(f"{path}: [{paper}] {kind} {number} is not in {MAP}")
        found = deviations(source)
        for number in sorted(found - listed):
            complaints.append(f"{path}: deviation {number} is not in {MAP}")
        used |= found
    assert complaints + [f"{MAP}: no code mentions deviation {number}" for number in sorted(listed - used)] == []
