"""Setup of all tests: the root, plugins, no display, Ray without statistics; and which tests run together."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

import tests.argument_types  # noqa: F401 - Numba asks it for types
from dprl.platform.plugins import load_plugins

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Otherwise Ray's workers have a lower priority and starve on a busy machine.
os.environ.setdefault("RAY_worker_niceness", "0")
# A shell lets what it starts in the background ignore Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Slow examples on a busy machine are not failures.
hypothesis.settings.register_profile("dprl", deadline=None)
hypothesis.settings.load_profile("dprl")
# Objects of libraries and of collected tests live until the end: looking through them takes seconds per process.
gc.disable()
# Before tests are collected, because contract suites cover all registered parts.
load_plugins()

_ROOT = Path(__file__).resolve().parent.parent
# One name everywhere: an algorithm's file, its tests' files and the parameter of contract tests.
_ALGORITHMS = {path.stem for path in (_ROOT / "algorithms").iterdir()} | {"dp_ucbvi"}

_BENCHMARKED = {"tests/benchmarks/test_runs.py": "dp_nash_vi", "tests/benchmarks/test_pgc.py": "pgc_a3c"}
"""The algorithm whose loop the tests of a file compile, if no name shows it."""


class KernelScheduling(LoadScopeScheduling):
    """Give all tests of an algorithm to one worker, and other tests file by file.

    The loop of an algorithm takes up to half a minute to compile, which several workers would do at the same time;
    the same holds for module fixtures.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        if not file.startswith(("tests/algorithms/", "tests/benchmarks/")) or "/on_rllib/" in file:
            return file
        words = re.split(r"[-\[\]/. ]", re.sub("/test_(naive_)?", "/", nodeid))
        return _BENCHMARKED.get(file) or next((word for word in words if word in _ALGORITHMS), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Use our scheduling with `--dist loadscope`."""
    return KernelScheduling(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that start Ray, then with other slow ones: at the end, one worker would wait for another."""
    files: dict[Path, int] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        files[item.path] = max(files.get(item.path, 0), 2 * ("cluster" in marks) + ("slow" in marks))
    items.sort(key=lambda item: -files[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage again once tests are collected, but only among objects that tests make, and rarely."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository's root folder."""
    return _ROOT


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return headless Chromium, with logs of its console (`browser`) and of its requests (`performance`)."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    flags = "headless no-sandbox disable-gpu disable-quic disable-dev-shm-usage no-first-run disable-sync"
    for flag in (*flags.split(), "disable-background-networking", "disable-component-update", "window-size=1600,1200"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield session
    session.quit()
