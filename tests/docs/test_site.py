"""The documentation site: it builds without a warning, has every page, and loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from dprl.algorithms import ALGORITHMS

pytest.importorskip("mkdocs")
# Attributes that make a browser load something at once, unlike links that a reader may click.
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)\"|<link[^>]*\shref=\"([^\"]*)\"")


@pytest.fixture(scope="module")
def site(root: Path) -> Path:
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    env = {**os.environ, **nowhere}  # a request fails
    done = subprocess.run(["make", "docs"], cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout
    return root / "build" / "site"


def pages(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    values = entry.values() if isinstance(entry, dict) else entry
    return [page for value in values for page in pages(value)]  # type: ignore[attr-defined]


def test_every_page_is_in_the_navigation_once(root: Path) -> None:
    listed = pages(yaml.safe_load((root / "mkdocs.yml").read_text())["nav"])
    assert sorted(listed) == sorted(path.relative_to(root / "docs").as_posix() for path in root.glob("docs/**/*.md"))


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    found = list(site.rglob("*.html"))
    assert len(found) > 20
    for page in found:
        loaded = [first or second for first, second in LOADED.findall(page.read_text())]
        assert loaded
        assert not [url for url in loaded if "//" in url], page


def test_the_api_page_has_every_public_name(site: Path) -> None:
    import dprl  # noqa: PLC0415

    text = (site / "api.html").read_text()
    missing = [name for name in dprl.__all__ if name != "__version__" and not re.search(rf"dprl\.{name}\s*<", text)]
    assert missing == []


def test_the_api_page_has_every_algorithm(root: Path) -> None:
    text = (root / "docs" / "api.md").read_text()
    paths = {name: f"::: {config.__module__}.{config.__name__}\n" for name, config in ALGORITHMS.items()}
    own = {name: path for name, path in paths.items() if path.startswith("::: dprl.")}  # not those of plugins
    assert len(own) > 10
    assert [name for name, path in own.items() if path not in text] == []


def test_every_figure_is_in_the_gallery(root: Path) -> None:
    text = (root / "docs" / "gallery.md").read_text()
    assert [path.name for path in root.glob("docs/*.png") if f"({path.name})" not in text] == []
