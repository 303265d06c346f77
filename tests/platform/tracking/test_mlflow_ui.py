"""MLflow's web pages on a sweep's store, in a headless browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dprl.platform.tracking.store import runs_page
from tests.servers import server

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(2400)]

CONFIG = {
    "name": "seen",
    "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.1, "precision_scale": 0.1},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": 1.5}, {"model": "ldp", "epsilon": 2.5}]},
    "episodes": 5000,
    "seeds": 2,
}
LABELS = ("none", "jdp epsilon=1.5", "ldp epsilon=2.5")
PATIENCE = 300.0
"""Seconds for a page; on a busy machine Chromium takes minutes for one with 200 runs."""


def dprl(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "dprl.platform.command_line", *words]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seen") / "a b%20c?d#e"
    folder.mkdir()
    config = folder / "seen.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    environment = os.environ | {"DPRL_HOME": str(folder)}
    subprocess.run(dprl("run", str(config)), env=environment, check=True, timeout=400)
    return folder


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    # The server imports nothing from the user's folder.
    (home / "click.py").write_text("raise ImportError('not click')")
    environment = os.environ | {"DPRL_HOME": str(home)}
    with server(lambda port: dprl("ui", "--port", str(port)), home / "ui.log", environment, cwd=home) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for word in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1600,1200",
        f"--user-data-dir={tmp_path / 'profile'}",
    ):
        options.add_argument(word)
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    session.set_page_load_timeout(PATIENCE)
    session.set_script_timeout(PATIENCE)
    yield session
    session.quit()


def _wait_for_text(browser: Any, words: tuple[str, ...]) -> str:
    deadline = time.monotonic() + PATIENCE
    text = ""
    while time.monotonic() < deadline:
        text = str(browser.execute_script("return document.body ? document.body.innerText : ''"))
        if all(word in text for word in words):
            return text
        time.sleep(0.5)
    missing = [word for word in words if word not in text]
    raise AssertionError(f"the page does not show {missing}; it shows:\n{text[:3000]}")


def _click(browser: Any, xpath: str) -> None:
    # Click by script, because another element may cover this one in a small window.
    browser.execute_script("arguments[0].click()", browser.find_element("xpath", xpath))


def _run_cell(name: str, part: str) -> str:
    return f"//a[normalize-space()='{name}']/ancestor::div[@role='{part}']"


def test_cells_are_selected_and_compared(home: Path, address: str, browser: Any, tmp_path: Path) -> None:
    browser.get(address + runs_page(home / "mlflow.db"))
    _wait_for_text(browser, ("seen",))
    _click(browser, _run_cell("seen", "gridcell") + "//button")
    _wait_for_text(browser, LABELS)
    for label in LABELS:
        _click(browser, _run_cell(label, "row") + "//input[@type='checkbox']")
    browser.save_screenshot(str(tmp_path / "runs.png"))
    _click(browser, "//button[normalize-space()='Compare']")

    text = _wait_for_text(browser, ("Comparing 3 Runs", *LABELS, "Trust model", "privacy/certified_epsilon"))
    browser.save_screenshot(str(tmp_path / "compare.png"))
    assert {"1.5", "2.5", "jdp", "ldp"} <= set(text.split())
    assert (tmp_path / "compare.png").stat().st_size > 10_000
