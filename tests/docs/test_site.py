"""The documentation site: it builds without a warning, has every page, and loads nothing from other hosts.

The last is read in its sources, and seen in a browser.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

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


def requests(browser: Any, address: str, width: int = 1400) -> list[str]:
    """Show a page in a window of this width and return all addresses that it asks for elsewhere."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    return seen(browser)


def seen(browser: Any) -> list[str]:
    """Return the addresses elsewhere that the browser has asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert urls
    return [url for url in urls if not url.startswith(("file:", "data:", "blob:", "about:"))]


@pytest.mark.slow
@pytest.mark.browser
def test_pages_fit_a_phone_and_ask_no_other_host(site: Path, browser: Any, tmp_path: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name != "404.html":  # for servers: its links begin at the root
            assert requests(browser, page.as_uri(), 400) == [], page
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 400, page
    other = "http://127.0.0.1:9/a.png"
    (tmp_path / "page.html").write_text(f"<img src='{other}'>")
    assert requests(browser, (tmp_path / "page.html").as_uri()) == [other]


@pytest.mark.slow
@pytest.mark.browser
def test_search_finds_pages_without_a_server(site: Path, browser: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait  # noqa: PLC0415

    assert requests(browser, (site / "extending" / "index.html").as_uri()) == []
    field = browser.find_element("css selector", "input.md-search__input")
    field.click()
    field.send_keys("binary tree")
    links = "return [...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
    found = WebDriverWait(browser, 20).until(lambda shown: shown.execute_script(links))
    assert any("counters.html" in url for url in found), found
    assert seen(browser) == []


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
