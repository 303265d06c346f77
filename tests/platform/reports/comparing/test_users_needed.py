"""Users until a final score reaches 90 % of the way from the untrained policy to the end without privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.algorithms.dppg.algorithm import EVALUATION, SCORE
from dprl.platform.reports.comparing.groups import groups_of
from dprl.platform.reports.comparing.report_cells import ReportCell, longer_blocks
from dprl.platform.reports.comparing.sentences import lead
from dprl.platform.reports.comparing.users_needed import users_needed
from dprl.platform.reports.documents.terminal import text_of
from dprl.platform.reports.figures.catalogue import report_charts
from dprl.platform.reports.pages.cell_tables import needed_tables
from dprl.platform.results.cell_folder import CellFolder
from tests.platform.reports.comparing.cases import certificate

NONE = math.inf
FIRST = -500.0
"""Score of the untrained policy, as on Acrobot."""


def cell(folder: Path, epsilon: float, users: int, finals: Sequence[float], **settings: Any) -> ReportCell:
    """A finished cell of dppg: each seed's scores rise linearly from FIRST to its entry of `finals`."""
    episodes = np.unique(np.linspace(1, users, 100).astype(int))
    values = np.array([FIRST + (final - FIRST) * (episodes - 1) / (users - 1) for final in finals])
    frames = [pd.DataFrame({"seed": i, "episode": episodes, "evaluation": one}) for i, one in enumerate(values)]
    place = folder / f"{epsilon}_{users}"
    place.mkdir(exist_ok=True)
    pd.concat(frames).to_parquet(place / "records.parquet")
    free = math.isinf(epsilon)
    proof = certificate("none" if free else "jdp", None if free else epsilon, epsilon)
    row = {"cell": place.name, "algorithm.name": "dppg", "env.name": "control", "env.horizon": 500, "seed": 0}
    row |= {"privacy.model": proof["trust_model"], "episodes": users, "seeds": len(finals), "proved_epsilon": epsilon}
    row |= {"verdict": proof["verdict"], "evaluation": float(np.mean(finals)), "score": 0.0, "score_first": 0.0}
    row |= {} if free else {"privacy.epsilon": epsilon, "claimed_epsilon": epsilon, "claimed_delta": 0.0}
    return ReportCell(row | settings, proof, SCORE, episodes, values, (CellFolder(place),))


def test_users_are_interpolated_between_cells_on_the_scale_from_the_first_policy(tmp_path: Path) -> None:
    free = [cell(tmp_path, NONE, users, [final] * 3) for users, final in ((100, -300.0), (10_000, -100.0))]
    private = [cell(tmp_path, 1.0, users, [final] * 3) for users, final in ((100, -340.0), (10_000, 60.0))]
    found = {each.cells[0].proved: each for each in users_needed([*free, *private], EVALUATION)}
    # From -500 to -100: nine tenths of the way is -140.
    assert found[1.0].level == pytest.approx(-140.0)
    assert found[1.0].users == pytest.approx(1000.0)  # half of the way from -340 to 60, and of two decades
    assert found[NONE].users == pytest.approx(100 * 100**0.8)
    assert found[1.0].text("user") == "1,000 [1,000, 1,000]"


def test_the_interval_is_where_the_ends_of_the_scores_intervals_reach_the_level(tmp_path: Path) -> None:
    free = cell(tmp_path, NONE, 10_000, [-100.0] * 3)
    private = [cell(tmp_path, 1.0, u, [final - 10, final, final + 10]) for u, final in ((100, -340), (10_000, -100))]
    (_, one) = users_needed([free, *private], EVALUATION)
    half = 10 * 4.30265 / math.sqrt(3)
    assert one.users == pytest.approx(100 * 100 ** (200 / 240))
    assert one.lower == pytest.approx(100 * 100 ** ((200 - half) / 240), rel=1e-4)
    assert one.upper == pytest.approx(100 * 100 ** ((200 + half) / 240), rel=1e-4)


def test_nothing_is_extrapolated(tmp_path: Path) -> None:
    free = cell(tmp_path, NONE, 1000, [-100.0] * 3)
    never = [cell(tmp_path, 1.0, users, [-400.0] * 3) for users in (100, 1000)]
    wide = [cell(tmp_path, 2.0, users, [-300.0, -120.0, 90.0]) for users in (100, 1000)]
    soon = [cell(tmp_path, 9.0, users, [-101.0] * 3) for users in (100, 1000)]
    cells = [free, *never, *wide, *soon]
    texts = {each.cells[0].proved: each.text("user") for each in users_needed(cells, EVALUATION)}
    assert texts[1.0] == "not reached with 1,000 users"
    assert texts[2.0] == "\u2264 100 [\u2264 100, > 1,000]"
    assert texts[9.0] == "\u2264 100 [\u2264 100, \u2264 100]"
    charts = {chart.name: chart for chart in report_charts(cells)}
    caption = charts["users"].caption
    assert all(f"dppg, central, \u03b5 = {epsilon:g}: {texts[epsilon]}." in caption for epsilon in (1.0, 2.0, 9.0))
    assert "no privacy:" not in caption  # reached within the run
    (table,) = map(text_of, needed_tables(cells))
    assert "not reached with 1,000 users" in table
    private = [line for line in charts["users"].lines if not line.name.free]
    assert [x for line in private for x in line.x] == [2.0, 9.0]
    assert [end for line in private for end in line.high] == [1000.0, 100.0]


def test_a_single_length_is_read_along_its_run(tmp_path: Path) -> None:
    found = users_needed([cell(tmp_path, e, 1000, [-100.0] * 3) for e in (NONE, 1.0)], EVALUATION)
    assert [each.users for each in found] == pytest.approx([920.0] * 2, abs=20.0)  # half a block behind the line


@pytest.mark.parametrize("seeds", [{1000: 2}, {100: 3, 1000: 2}, {100: 2, 1000: 3}])
def test_two_seeds_have_no_interval(tmp_path: Path, seeds: dict[int, int]) -> None:
    run = [cell(tmp_path, NONE, users, [{100: -300.0, 1000: -100.0}[users]] * n) for users, n in seeds.items()]
    (one,) = users_needed(run, EVALUATION)
    assert one.users < 1000
    assert math.isnan(one.lower)
    assert math.isnan(one.upper)


def test_there_is_no_level_where_nothing_was_learned_without_privacy_or_settings_differ(tmp_path: Path) -> None:
    private = cell(tmp_path, 1.0, 1000, [-100.0] * 3)
    assert users_needed([private, cell(tmp_path, NONE, 1000, [FIRST] * 3)], EVALUATION) == []
    other = cell(tmp_path, NONE, 1000, [-100.0] * 3, **{"algorithm.discount": 0.5})
    assert [each.cells[0] for each in users_needed([private, other], EVALUATION)] == [other]


@pytest.mark.parametrize(
    ("norm", "clip", "alike"), [("l2", 2.0, True), ("none", None, True), ("l1", 2.0, False), ("l2", 1.0, False)]
)
def test_a_run_without_privacy_is_the_reference_if_it_clips_alike(
    norm: str, clip: float | None, alike: bool, tmp_path: Path
) -> None:
    private = cell(tmp_path, 1.0, 1000, [-100.0] * 3, **{"privacy.mechanism": "clipped_gaussian", "privacy.clip": 2.0})
    clipping = {"privacy.clip_norm": norm} | ({} if clip is None else {"privacy.clip": clip})
    cells = [private, cell(tmp_path, NONE, 1000, [-200.0] * 3, **clipping)]
    assert len(users_needed(cells, EVALUATION)) == 1 + alike
    told = " ".join(lead(groups_of(cells)))
    paper: list[ReportCell] = [
        cell(tmp_path, NONE, 1000, [-200.0] * 3, **{"privacy.clip_norm": "l1", "privacy.clip": 0.01})
    ]
    laplace = {"privacy.mechanism": "clipped_laplace", "privacy.clip": 0.01}
    paper.append(cell(tmp_path, 1.0, 1000, [-100.0] * 3, **laplace))
    assert len(users_needed(paper, EVALUATION)) == 2
    assert ("from its score without privacy" in told) == alike
    assert ("clips gradients otherwise: write clip_norm: l2 and the same clip there" in told) == (not alike)


def test_final_scores_have_the_level_of_the_first_policy(tmp_path: Path) -> None:
    cells = [cell(tmp_path, e, users, [-100.0] * 3) for e in (NONE, 1.0) for users in (100, 1000)]
    charts = {chart.name: chart for chart in report_charts(cells)}
    assert list(charts)[:2] == ["final", "users"]
    assert [panel.unlearned for panel in charts["final"].panels] == [FIRST, FIRST]
    assert charts["final"].lines[0].y[-1] == -100.0
    assert charts["curves"].x.title == "Users (certified \u03b5 = 1)"


def test_longer_blocks_keep_the_mean_of_a_run() -> None:
    episodes = np.unique(np.geomspace(1, 1000, 200).astype(int))
    values = np.random.default_rng(0).normal(size=(2, len(episodes)))
    ends, means = longer_blocks(episodes, values)
    assert len(ends) <= 25
    assert ends[-1] == 1000
    whole = np.average(values, axis=1, weights=np.diff(episodes, prepend=0))
    assert np.average(means, axis=1, weights=np.diff(ends, prepend=0)) == pytest.approx(whole)
