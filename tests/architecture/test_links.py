"""Links between pages point to existing files."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = ("*.md", "docs/*.md", "docs/*/*.md", "*/README.md")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page whose file does not exist."""
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    return [target for target in targets if not (page.parent / target).exists()]


def pages(root: Path) -> list[Path]:
    return [page for pattern in PAGES for page in sorted(root.glob(pattern))]


def test_every_link_leads_to_a_file(root: Path) -> None:
    assert {page.name: broken_links(page) for page in pages(root) if broken_links(page)} == {}
