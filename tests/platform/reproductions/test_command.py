"""`dprl reproduce`: its papers, its output, and a small complete run."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.command_line import main
from dprl.platform.reproductions import ma_ldp, papers, pgc_a3c
from dprl.platform.reproductions.engine import Reproduced, Request
from dprl.platform.sweeps.sweep import SweepOptions


class Recorded:
    """A reproduction that only records its requests."""

    def __init__(self, page: Path | None, failed: list[str], paper: str = "pgc_a3c") -> None:
        self.page, self.failed, self.paper = page, failed, paper
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reproduced:
        self.requests.append(request)
        os.write(1, b"from a worker\n")  # as Ray does it
        data = {"tables": [{"ours": math.inf, "inside": None}]}
        verdicts = [["", "R1"], ["Table 1: inside our range", "5 of 7"]]
        return Reproduced(self.paper, self.page, verdicts, data, self.failed)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorded:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    found = Recorded(tmp_path / "page.md", [])
    monkeypatch.setitem(papers.PAPERS, "pgc_a3c", found)
    return found


@pytest.mark.parametrize("word", [["pgc-a3c"], ["pgc_a3c"], ["PGC-A3C"]])
def test_every_spelling_of_the_paper_runs_it(recorded: Recorded, tmp_path: Path, word: list[str]) -> None:
    assert main(["reproduce", *word]) == 0
    (request,) = recorded.requests
    assert (request.sweep.home, request.quick, request.sweep.executor) == (tmp_path, False, "tune")
    assert request.sweep.command.endswith(" ".join(["dprl reproduce", *word]))


@pytest.mark.parametrize("word", [[], ["all"]])
def test_all_papers_are_the_default(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, word: list[str]) -> None:
    other = Recorded(recorded.page, [], "ma_ldp")
    assert set(papers.PAPERS) == {recorded.paper, other.paper}
    monkeypatch.setitem(papers.PAPERS, other.paper, other)
    assert main(["reproduce", *word]) == 0
    assert [len(each.requests) for each in (recorded, other)] == [1, 1]


def test_quick_is_reported_and_not_together_with_full(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "pgc-a3c", "--quick"]) == 0
    assert recorded.requests[0].quick
    assert main(["reproduce", "pgc-a3c", "--quick", "--full"]) == 2
    assert "not allowed with" in capsys.readouterr().err
    assert len(recorded.requests) == 1


def test_fresh_is_reported_and_is_no_part_of_what_resumes(recorded: Recorded) -> None:
    assert main(["reproduce", "pgc-a3c", "--fresh"]) == main(["reproduce", "pgc-a3c"]) == 0
    assert [request.sweep.fresh for request in recorded.requests] == [True, False]
    assert "--fresh" not in recorded.requests[0].sweep.command


@pytest.mark.parametrize("uri", [None, "http://host:5000"])
def test_the_variable_of_mlflow_is_heeded(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, uri: str | None) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert main(["reproduce", "pgc-a3c"]) == 0
    assert recorded.requests[0].sweep.tracking_uri == uri


def test_an_unknown_paper_is_refused_with_the_nearest_name(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "pcg-a3c"]) == 2
    assert "did you mean 'pgc-a3c'?" in capsys.readouterr().err
    assert not recorded.requests


def test_the_terminal_shows_verdicts_and_where_the_page_is(
    recorded: Recorded, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["reproduce", "pgc-a3c"]) == 0
    shown = capfd.readouterr()
    assert shown.out.splitlines()[1:] == ["Table 1: inside our range  5 of 7", f"page      {tmp_path / 'page.md'}"]
    assert "from a worker" not in shown.out


def test_json_is_strict(recorded: Recorded, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "pgc-a3c", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)["pgc_a3c"]
    assert found == {"page": str(tmp_path / "page.md"), "tables": [{"ours": "inf", "inside": None}]}


def test_a_failed_cell_is_reported_and_there_is_no_page(recorded: Recorded, capfd: pytest.CaptureFixture[str]) -> None:
    recorded.page, recorded.failed = None, ["epsilon=1: it broke"]
    assert main(["reproduce", "pgc-a3c"]) == 1
    shown = capfd.readouterr()
    assert "page" not in shown.out
    assert "dprl: failed: epsilon=1: it broke" in shown.err


@pytest.mark.slow
def test_a_small_run_leaves_a_page_and_resumes(tmp_path: Path) -> None:
    def again(executor: Any = "process") -> Reproduced:
        sweep = SweepOptions("", tmp_path, executor, None, None, False, "dprl reproduce")
        return pgc_a3c.PAPER(Request(sweep, True, ("episodes=300", "seeds=2")))

    first = again()
    assert not first.failed
    assert first.page == tmp_path / "reproductions" / "pgc_a3c_quick" / "reproduction_pgc_a3c.md"
    text = first.page.read_text(encoding="utf-8")
    assert "Made by `dprl reproduce` from the sweep pgc_a3c_table_quick" in text
    cells = first.data["cells"]
    assert {(cell["trials"], cell["submissions"]) for cell in cells} == {(2, 300)}
    assert {(cell["verdict"], cell["epsilon"] is None) for cell in cells} == {("holds", False), ("unbounded", True)}
    assert all(cell["proved_epsilon"] <= cell["epsilon"] * (1 + 1e-9) for cell in cells if cell["epsilon"])
    assert again().page == first.page
    assert first.page.read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_a_small_run_of_ma_ldp_leaves_a_page_and_resumes(tmp_path: Path) -> None:
    def again() -> Reproduced:
        sweep = SweepOptions("", tmp_path, "process", None, None, False, "dprl reproduce")
        return ma_ldp.PAPER(Request(sweep, True, ("episodes=60", "seeds=3")))

    first = again()
    assert not first.failed
    assert first.page == tmp_path / "reproductions" / "ma_ldp_quick" / "reproduction_ma_ldp.md"
    text = first.page.read_text(encoding="utf-8")
    assert "Made by `dprl reproduce` from the sweep ma_ldp_mechanisms_quick" in text
    cells = first.data["cells"]
    assert {(cell["runs"], cell["episodes"]) for cell in cells} == {(3, 60)}
    for cell in cells:
        certified = cell["group"].startswith("certified")
        assert cell["verdict"] == "holds" if certified else True, cell
        assert not certified or cell["proved_epsilon"] <= cell["epsilon"] * (1 + 1e-9)
        assert cell["group"] not in {"printed", "again", "maxmin"} or math.isinf(cell["proved_epsilon"])
    groups = {"printed", "again", "maxmin", "clipped", "illustration", "illustration, maxmin"}
    assert {one["group"] for one in first.data["orders"]} == groups
    assert again().page == first.page
    assert first.page.read_text(encoding="utf-8") == text
