"""report.html in a headless browser: widths, contrast, no errors, print."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.reports.report import SweepReport

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

_CONTRAST = """
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
function rgba(text) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
}
function luminance(c) {
  const [r, g, b] = [c[0], c[1], c[2]].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
}
function background(node) {
  for (; node; node = node.parentElement) {
    const found = rgba(getComputedStyle(node).backgroundColor);
    if (found[3] > 250) return found;
  }
  return rgba('white');
}
const low = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  if (style.visibility !== 'visible') continue;
  const drawn = node instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [luminance(rgba(drawn)), luminance(background(node))].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05);
  if (ratio < 4.5) low.push([walker.currentNode.textContent.trim(), drawn, ratio.toFixed(2)]);
}
return low;
"""
_CUT = """
const wide = [];
for (const node of document.querySelectorAll('main *')) {
  if (!node.getClientRects().length || node.closest('.box')) continue;
  const box = node.getBoundingClientRect();
  if (box.right > innerWidth + 1 || box.left < -1) wide.push(node.tagName + ' ' + node.className);
}
return wide;
"""


@pytest.fixture(scope="module")
def address(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return SweepReport.of(finished, ["small"]).write(tmp_path_factory.mktemp("page"), "a test")[0].as_uri()


def show(browser: Any, address: str, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    browser.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_cut_off_and_all_text_is_readable(browser: Any, address: str, width: int) -> None:
    show(browser, address, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(_CUT) == []
    assert browser.execute_script(_CONTRAST) == []
    assert browser.get_log("browser") == []
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": False, "preferCSSPageSize": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
