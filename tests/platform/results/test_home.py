"""The folder of all results."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dprl.algorithms.pgc.journaled_privatizer import journal_folder
from dprl.platform.errors import UserError
from dprl.platform.results.home import home_folder


@pytest.mark.parametrize("chosen", [None, "", "elsewhere"])
def test_ledgers_of_runs_on_rllib_lie_in_the_folder_of_all_results(
    chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The algorithms do not import the platform, but know the variable and the default, too.
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPRL_HOME", raising=False)
    if chosen is not None:
        monkeypatch.setenv("DPRL_HOME", chosen)
    assert journal_folder(None, None).parents[1] == home_folder(None) == tmp_path / (chosen or "dprl_runs")


def test_results_can_be_read_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert home_folder(str(tmp_path), written=False) == tmp_path
    with pytest.raises(UserError, match="--storage: must be a folder that can be written, got"):
        home_folder(str(tmp_path))
