"""The troubleshooting page quotes existing messages: each of them occurs in the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP_FOLDERS = ("privacy", "envs", "algorithms", "platform", "papers")
HEADING = re.compile(r"^### `(.*)`$", re.MULTILINE)
PLACE = re.compile(r"^(?!FAILS)(?:[\w$.-]+|\.\.\. ?): ")
SHORTEST = 4


def quoted(page: str) -> list[str]:
    return HEADING.findall(page)


@cache
def texts(root: Path) -> list[str]:
    """Return every text of the folders' sources, with NUL for its variable parts."""
    found = []
    for top in TOP_FOLDERS:
        for path in sorted((root / top).rglob("*.py")):
            found += list(texts_of(ast.parse(path.read_text())))
        found += [path.read_text() for path in sorted((root / top).rglob("*.j2"))]
    return found


def texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def fragments(message: str) -> list[str]:
    """Return the fixed parts of a message, without the place before it."""
    parts = re.split(r"\.\.\.|, got |(?<=[a-z]); |\b\d[\w.]*\b", PLACE.sub("", message))
    stripped = [part.strip(" ().;") for part in parts]
    return [part for part in stripped if len(part) >= SHORTEST]


def missing(page: str, sources: list[str]) -> list[str]:
    """Return messages without fixed parts, or with a fixed part that no text of the sources has."""
    gone = []
    for message in quoted(page):
        parts = fragments(message)
        if not parts or not all(any(part in text for text in sources) for part in parts):
            gone.append(message)
    return gone


def test_every_quoted_message_is_in_the_sources(root: Path) -> None:
    page = (root / "docs" / "troubleshooting.md").read_text()
    assert len(quoted(page)) > 30
    assert missing(page, texts(root)) == []
