"""The folder of all results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprl.algorithms.pgc.journaled_privatizer import journal_folder
from dprl.platform.command_line import main
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


def test_a_folder_that_is_not_utf_8_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPRL_HOME", os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    for words in (["run", "smoke"], ["ui"], ["report", "smoke"], ["certify", os.fsdecode(b"caf\xe9.yaml")]):
        assert main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "UTF-8" in line
        line.encode()
    assert not list(tmp_path.iterdir())


def test_the_backend_of_a_notebook_does_not_matter() -> None:
    """Jupyter sets it for every `!dprl`, where the package with the backend may be missing."""
    code = "from dprl.platform.command_line import main; assert main(['list']) == 0; import matplotlib.figure"
    environment = os.environ | {"MPLBACKEND": "module://not_there.backend_inline"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)
