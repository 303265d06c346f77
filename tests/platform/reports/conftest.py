"""Finished sweeps for all tests of pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.command_line import main

SWEEP = """\
name: small
algorithm: {name: private_ucb_vi, bonus_scale: 0.1}
env: {name: riverswim, n_states: 3, horizon: {grid_search: [2, 3]}}
privacy:
  grid_search:
    - {model: none}
    - {model: jdp, epsilon: 1, calibration: printed}
    - {model: jdp, epsilon: {grid_search: [1, 3]}}
    - {model: ldp, epsilon: 1}
episodes: 60
seeds: 3
"""


@pytest.fixture(scope="package")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with a sweep of claims that hold and claims that fail."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPRL_HOME", str(folder))
        (folder / "small.yaml").write_text(SWEEP)
        assert main(["run", str(folder / "small.yaml")]) == 0
    return folder
