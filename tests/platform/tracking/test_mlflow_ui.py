"""`dprl ui` in a browser: MLflow's list and its page of comparisons show a sweep's cells; Ctrl-C ends its server."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.tracking.store import runs_page
from tests.platform.processes import PATIENCE, dprl, start, wait_for, write_config
from tests.servers import answers, free_ports

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(2400)]


def _wait_for_text(browser: Any, *words: str) -> str:
    deadline, text = time.monotonic() + PATIENCE, ""
    while missing := [word for word in words if word not in text]:
        assert time.monotonic() < deadline, f"the page does not show {missing}; it shows:\n{text[:3000]}"
        time.sleep(0.5)
        text = str(browser.execute_script("return document.body ? document.body.innerText : ''"))
    return text


def _click(browser: Any, xpath: str) -> None:
    # By script, because another element may cover this one.
    browser.execute_script("arguments[0].click()", browser.find_element("xpath", xpath))


def test_cells_are_selected_and_compared(tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "a b%20c?d#e"
    home.mkdir()
    # The server imports nothing from the user's folder.
    (home / "click.py").write_text("raise ImportError('not click')")
    monkeypatch.chdir(home)
    privacy = [{"model": "none"}, {"model": "jdp", "epsilon": 1.5}, {"model": "ldp", "epsilon": 2.5}]
    dprl(home, "run", write_config(home, privacy={"grid_search": privacy}))
    labels, port = ("none", "jdp epsilon=1.5", "ldp epsilon=2.5"), free_ports(1)[0]
    address = f"http://127.0.0.1:{port}"
    with start(home, "ui", "--port", port) as process:
        try:
            wait_for(lambda: answers(f"{address}/health"), process)
            browser.get(address + runs_page(home / "mlflow.db"))
            _wait_for_text(browser, "grid")
            _click(browser, "//a[normalize-space()='grid']/ancestor::div[@role='gridcell']//button")
            _wait_for_text(browser, *labels)
            for label in labels:
                _click(browser, f"//a[normalize-space()='{label}']/ancestor::div[@role='row']//input[@type='checkbox']")
            _click(browser, "//button[normalize-space()='Compare']")
            text = _wait_for_text(browser, "Comparing 3 Runs", *labels, "Trust model", "privacy/certified_epsilon")
            assert {"1.5", "2.5", "jdp", "ldp"} <= set(text.split())
        finally:
            # The server has a session of its own: only the command ends it.
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
    deadline = time.monotonic() + PATIENCE
    while answers(f"{address}/health"):
        assert time.monotonic() < deadline, "the server outlives its command"
        time.sleep(0.2)
