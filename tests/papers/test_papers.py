"""The papers' scripts: cells of their configs, tables and sentences on made-up trials, and the command end to end."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.envs.network_mdp import SignMixture
from dprl.papers import compare, cz22, ot20, qw24, th23
from dprl.papers.compare import Section
from dprl.platform.command_line import main
from dprl.platform.configs.config import load_cells
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.sweeps.cell import block_ends
from dprl.platform.sweeps.sweep import SweepOptions

SUBMISSIONS = 90_000


@pytest.mark.parametrize("paper", [cz22, qw24, ot20, th23])
def test_the_config_has_each_cell_of_the_page_once(paper: Any) -> None:
    keys = [{"K": cell.episodes, **paper.key(cell.parameters())} for cell in load_cells(paper.CONFIG)]
    assert len({tuple(key.items()) for key in keys}) == len(keys)


def test_the_configs_have_the_papers_settings() -> None:
    for cell in load_cells(ot20.CONFIG):
        flat = cell.parameters()
        assert (flat["episodes"], flat["algorithm.learning_rate"], flat["algorithm.discount"]) == (90_000, 0.5, 0.99)
        clips = {ot20.LAPLACE: 0.01, ot20.PRS: 1.0}
        assert flat["privacy.model"] == "none" or flat["privacy.clip"] == clips[str(flat["privacy.mechanism"])]
    for cell in load_cells(th23.CONFIG):
        mdp, flat = cell.env.build(), cell.parameters()
        assert isinstance(mdp, SignMixture)
        assert (cell.episodes, mdp.horizon, mdp.n_agents, mdp.dimension) == (th23.EPISODES, th23.HORIZON, 2, 4)
        if flat["privacy.model"] != "none" and flat["privacy.clipping"] == "none":
            assert (flat["algorithm.bonus_scale"], flat["algorithm.shift_scale"]) == (1.0, 1.0)
            assert (flat["privacy.rewards"], flat["privacy.noise_scale"]) == ("open", 1.0)
    for paper in (cz22, qw24):
        for cell in load_cells(paper.CONFIG):
            flat = cell.parameters()
            assert flat["privacy.model"] == "none" or flat["privacy.calibration"] == "printed"
            # The constants of the proofs, where there are some.
            assert {flat.get("algorithm.bonus_scale", 1.0), flat.get("algorithm.precision_scale", 1.0)} == {1.0}


# ---- [OT20] ----


def trials(reading: str, cell: ot20.Cell, first: Sequence[float] | np.ndarray) -> pd.DataFrame:
    """Trials with these first successes."""
    first = np.asarray(first, dtype=np.float64)
    area = np.where(np.isfinite(first), (SUBMISSIONS - first + 1) / SUBMISSIONS, 0.0)
    found = {"success": np.isfinite(first) * 1.0, "early_success": (first <= ot20.EARLY) * 1.0, "area": area}
    rest = {"mean_score": 100.0 * area, "final_score": 100.0, "proved": cell.epsilon, "verdict": "holds"}
    return pd.DataFrame({"reading": reading, **cell._asdict(), "first_success": first, **found, **rest})


def around(median: float) -> np.ndarray:
    return np.asarray(median * np.linspace(0.9, 1.1, 100))


def every_cell() -> pd.DataFrame:
    """All cells of the sweep, with first successes around 10,000."""
    keys = [ot20.key(cell.parameters()) for cell in load_cells(ot20.CONFIG)]
    return pd.concat([trials(key.pop("reading"), ot20.Cell(**key), around(10_000)) for key in keys if key])


def test_all_published_numbers_stand_beside_ours() -> None:
    of = ot20.cell(ot20.LAPLACE, 2.0)
    runs = every_cell()
    mine = (runs["reading"] == "R1") & (runs[list(ot20.Cell._fields)] == pd.Series(of._asdict())).all(axis=1)
    runs = pd.concat([runs[~mine], trials("R1", of, np.r_[[5000.0] * 40, [6000.0] * 41, [math.inf] * 19])])
    numbers = ot20.published(runs)
    assert numbers.groupby("table").size().tolist() == [3 * 7, 3 * 10, 3 * 4]
    chosen = numbers[(numbers["reading"] == "R1") & (numbers["mechanism"] == "Laplace") & (numbers["\u03b5"] == 2.0)]
    first, success, area = (row for _, row in chosen.iterrows())
    assert (first["paper"], first["ours"].value, first["inside"]) == ("20238.5", 6000.0, False)
    assert (success["paper"], success["ours"].value, success["inside"]) == ("0.90", 0.81, True)
    without = around(10_000)
    expected = (0.4 * 85_001 + 0.41 * 84_001) / np.mean(SUBMISSIONS - without + 1)
    assert area["ours"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((40_000, 30_000, 20_000, 10_000), "holds"),
        ((40_000, 30_000, 20_000, 20_000), "open"),
        ((40_000, 20_000, 30_000, 10_000), "fails"),
        ((math.inf, 30_000, 20_000, 10_000), "holds"),
    ],
)
def test_laplace_falls_only_if_each_step_falls(order: tuple[float, ...], expected: str) -> None:
    pairs = zip(ot20.EPSILONS, order, strict=True)
    runs = pd.concat([trials("R1", ot20.cell(ot20.LAPLACE, epsilon), around(median)) for epsilon, median in pairs])
    claims = ot20.falls("first_success", ot20.LAPLACE, *ot20.EPSILONS)
    assert ot20.decide(runs, "R1", claims) == expected
    assert ot20.decide(runs, "literal", claims) == ""


def test_the_sweep_has_every_cell_of_the_sentences_and_the_page_all_of_them() -> None:
    sections = {section.title: section for section in ot20.sections(every_cell())}
    sentences = sections["Sentences of the paper"].texts
    assert len(sentences) == len(ot20.SENTENCES) == 16
    assert all(sentences[["R1", "R2"]].to_numpy().ravel())
    assert len(sections["Published numbers beside ours"].texts) == 21
    assert len(sections["Means of all cells"].records()) == len(load_cells(ot20.CONFIG))


def test_means_over_the_run_are_those_of_the_submissions() -> None:
    scores = np.random.default_rng(0).integers(8, 200, size=(3, 12_345)).astype(float)
    ends, first = block_ends(12_345), [20.0, math.inf, 20_000.0]
    rows = [
        {"seed": seed, "episode": end, "score": each[start:end].mean(), "first_success": success, "area": 0.5}
        for seed, (each, success) in enumerate(zip(scores, first, strict=True))
        for start, end in zip(np.r_[0, ends[:-1]], ends, strict=True)
    ]
    # In another order, because columns identify the rows.
    records = pd.DataFrame(rows).assign(final_score=1.0).sample(frac=1.0, random_state=0)
    found = ot20.read(CellResults(records, {}, 1.0, 0.0))
    assert found["mean_score"] == pytest.approx(scores.mean(axis=1))
    assert (found["success"].tolist(), found["early_success"].tolist()) == ([1.0, 0.0, 1.0], [1.0, 0.0, 0.0])


# ---- [TH23] ----


def regrets(means: dict[tuple[str, float], float], group: str = "as printed, V of joint actions") -> pd.DataFrame:
    found = []
    for i, ((mechanism, epsilon), mean) in enumerate(means.items()):
        values = np.random.default_rng(i).normal(mean, 400.0, 30)
        about = {"group": group, "mechanism": mechanism, "epsilon": epsilon, "setting": 1.0, "episodes": th23.EPISODES}
        found.append(pd.DataFrame({**about, "regret": values}))
    return pd.concat(found, ignore_index=True)


def figure(*means: float) -> dict[tuple[str, float], float]:
    cells = ((th23.LAPLACE, 0.1), (th23.LAPLACE, 0.2), (th23.GAUSSIAN, 0.05), (th23.GAUSSIAN, 0.2))
    return dict(zip(cells, means, strict=True))


def test_orders_show_are_reversed_or_do_not_show() -> None:
    clear = th23.order_table(regrets(figure(5000.0, 3000.0, 6000.0, 4000.0)))
    assert list(clear["verdict"]) == ["shows"] * 3
    assert list(clear["paper"]) == pytest.approx([math.sqrt(2), 2.0, math.log(50) ** 0.25])
    around_one = th23.order_table(regrets(figure(3000.0, 5000.0, 5000.0, 5000.0)))
    assert list(around_one["verdict"]) == ["reversed", "does not show", "does not show"]
    assert th23.order_table(regrets({(th23.LAPLACE, 0.1): 1.0})).empty


def test_regret_of_random_actions_is_told_from_less() -> None:
    level = th23.random_regret(th23.EPISODES)
    assert level == pytest.approx(5627.83, abs=0.01)
    runs = regrets({(th23.LAPLACE, 0.1): level, (th23.LAPLACE, 0.2): 4000.0})
    (row,) = th23.random_table(runs).to_dict("records")
    assert row["no significant difference"] == "1 of 2 cells"


def test_only_what_is_called_not_private_has_less_noise_than_it_claims() -> None:
    for cell in load_cells(th23.CONFIG):
        flat, key = cell.parameters(), th23.key(cell.parameters())
        assert key is not None
        weak = flat["privacy.model"] == "none" or float(flat.get("privacy.noise_scale", 1.0)) < 1.0
        assert weak == key["group"].startswith("NOT PRIVATE")


# ---- the command ----


def small(home: Path, seeds: int = 2) -> tuple[list[Section], Path | None, list[str]]:
    sweep = SweepOptions("", home, "process", None, None, False, "dprl reproduce ot20 --quick")
    return compare.reproduce(ot20, sweep, True, ("episodes=300", f"seeds={seeds}"))


@pytest.mark.slow
def test_a_small_run_leaves_a_page_and_resumes(tmp_path: Path) -> None:
    sections, page, failed = small(tmp_path)
    assert not failed
    assert page == tmp_path / "reproductions" / "ot20_quick.md"
    text = page.read_text(encoding="utf-8")
    assert "Made by `dprl reproduce ot20 --quick` from the sweep pgc_a3c_table_quick (pgc_a3c_table.yaml)." in text
    assert "53 cells of 2 seeds, 300 episodes each." in text
    assert text.count("| Table ") == 21 + 1  # and a sentence on Table 1
    for one in sections[-1].records():
        assert one["verdict"] == ("holds" if math.isfinite(one["epsilon"]) else "unbounded")
        assert one["proved"] <= one["epsilon"] * (1 + 1e-9)
    assert small(tmp_path)[1] == page
    assert page.read_text(encoding="utf-8") == text


def test_a_page_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Paper:
        CONFIG, QUICK, TITLE, NOTES, __name__ = "smoke", (), "a paper", "", "dprl.papers.smoke"
        key, read = staticmethod(cz22.key), staticmethod(cz22.read)

        @staticmethod
        def sections(runs: pd.DataFrame) -> list[Section]:
            return [Section("one", runs)]

    (tmp_path / "reproductions").touch()
    sweep = SweepOptions("", tmp_path, "process", None, None, False, "dprl reproduce smoke")
    with pytest.raises(Exception, match="must be a file that can be written"):
        compare.reproduce(Paper, sweep, False, ("episodes=50", "seeds=1", "privacy={model: none}"))  # type: ignore[arg-type]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Calls of `compare.reproduce`, which runs nothing."""
    calls: list[tuple[Any, ...]] = []

    def reproduce(*call: Any) -> tuple[list[Section], Path | None, list[str]]:
        calls.append(call)
        return (
            [Section("Orders", pd.DataFrame([{"ours": math.inf}]))],
            tmp_path / "page.md",
            ["one: it broke"] * call[2],
        )

    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    monkeypatch.setattr(compare, "reproduce", reproduce)
    return calls


def test_the_command_prints_tables_and_tells_failures(
    recorded: list[tuple[Any, ...]], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["reproduce", "th23"]) == 0
    assert capfd.readouterr().out.split() == ["Orders", "ours", "\u221e", "page", str(tmp_path / "page.md")]
    assert main(["reproduce", "qw24", "--quick", "--fresh", "--json"]) == 1
    shown = capfd.readouterr()
    assert json.loads(shown.out) == {"page": str(tmp_path / "page.md"), "Orders": [{"ours": "inf"}]}
    assert "dprl: failed: one: it broke" in shown.err
    assert [(call[0], call[1].fresh, call[2]) for call in recorded] == [(th23, False, False), (qw24, True, True)]
    assert "--fresh" not in recorded[1][1].command


@pytest.mark.parametrize("words", [[], ["pgc-a3c"], ["all"]])
def test_other_papers_are_refused(
    recorded: list[tuple[Any, ...]], capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    assert not recorded
    assert "PAPER" in capfd.readouterr().err
