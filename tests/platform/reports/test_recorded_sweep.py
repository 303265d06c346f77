"""A recorded sweep with counts, gradients and statistics is reported and loaded; one of an earlier version is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import dprl
from dprl.platform.command_line import main
from dprl.platform.errors import UserError
from dprl.platform.policies import load_policy
from dprl.platform.results.layout import SweepLayout

ALGORITHMS = ["ma_ldp", "pgc_a3c", "private_ucb_vi"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return shutil.copytree(Path(__file__).parent / "recorded", tmp_path / "home")


@pytest.mark.parametrize("command", [["report"], ["plot"], ["report", "--out", "page"]])
def test_a_sweep_of_an_earlier_version_is_refused(
    command: list[str], home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in SweepLayout(home, "recorded").finished_cells():
        old = json.loads(folder.certificate_file.read_text()) | {"schema": "dprl.certificate/4", "version": "0.2.0"}
        folder.certificate_file.write_text(json.dumps(old))
    assert main([*command, str(home / "sweeps" / "recorded"), "--storage", str(home)]) == 2
    told = capsys.readouterr().err
    assert "got 'dprl.certificate/4' of dprl 0.2.0; run its experiment.yaml again" in told
    assert told.count("\n") == 1
    with pytest.raises(UserError, match="must be a cell of this version"):
        dprl.load("recorded", storage=home)


def test_its_report_has_all_cells_and_certificates(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "recorded", "--storage", str(home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(home / "sweeps" / "recorded" / "report.html")
    found = pd.read_csv(home / "sweeps" / "recorded" / "report.csv").set_index("algorithm.name")
    before = SweepLayout(home, "recorded").summary().set_index("algorithm.name")
    assert sorted(found.index) == sorted(before.index) == ALGORITHMS
    for column in ("cell", "privacy.model", "proved_epsilon", "verdict", "regret", "mean_regret", "halved_at", "score"):
        pd.testing.assert_series_equal(found[column], before[column], check_like=True, check_dtype=False)


def test_one_of_its_figures_is_drawn_with_its_caption(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["plot", "recorded", "frontier", "--storage", str(home)]
    for more, name, begin in (
        ([], "recorded_frontier.pdf", b"%PDF"),
        (["--out", "small.png"], "small.png", b"\x89PNG"),
        (["--out", "new/small.SVG", "--width", "10"], "new/small.SVG", b"<?xml"),
    ):
        assert main([*words, *more]) == 0
        figure, caption = capsys.readouterr().out.splitlines()
        assert figure == f"figure    {name}"
        assert caption.startswith("caption   Regret per episode against certified privacy. ")
        assert Path(name).read_bytes().startswith(begin)
    assert 'viewBox="0 0 720 ' in Path("new/small.SVG").read_text()  # 10 inches
    assert main([*words, "--width", "1.4"]) == 2
    assert capsys.readouterr().err.startswith("dprl: width: must be a number of inches in (1.5, 40.0), got 1.4; ")
    Path("file").touch()
    assert main([*words, "--out", "file/x.pdf"]) == 2
    assert capsys.readouterr().err.startswith("dprl: --out: must be a file that can be written (")


def test_its_policies_are_loaded(home: Path) -> None:
    for folder in SweepLayout(home, "recorded").finished_cells():
        assert load_policy(folder.path, seed=1).env == folder.experiment().env


def test_settings_that_are_no_longer_known_are_read_from_the_summary_or_refused_with_the_remedy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in SweepLayout(home, "recorded").finished_cells():
        text = folder.experiment_file.read_text()
        folder.experiment_file.write_text(text.replace("privacy: {", "privacy: {setting_of_old: 1, "))
    assert main(["report", "recorded", "--storage", str(home)]) == 0
    (home / "sweeps" / "recorded" / "summary.csv").unlink()
    assert main(["report", str(home / "sweeps" / "recorded"), "--storage", str(home)]) == 2
    told = capsys.readouterr().err
    assert "privacy.setting_of_old: unknown key; valid: " in told
