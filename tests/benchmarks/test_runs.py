"""The harness measures what it says, every benchmark times what it reports, and yardsticks have our noise."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import games, rlberry, tabular
from benchmarks.harness import PRIVACY, Blocks, Model, Row, built, command_line, trust
from benchmarks.naive_dp_nash_vi import NaiveNashVI
from benchmarks.naive_ucb_vi import NaiveUCBVI
from dprl.algorithms import DPNashVIConfig
from dprl.envs import FiniteMDP, RiverSwim
from dprl.envs.games import RandomGame

FEW = Blocks(1, repeats=1)


def test_the_command_prints_tables_and_writes_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
        yield "Title", [{"name": "a", "ours": 1.26, "quick": quick}]

    monkeypatch.setattr(sys, "argv", ["noise", "--quick", "--json", str(tmp_path / "figures.json")])
    command_line(measure, "text")
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        ["name", "ours", "quick"],
        ["a", "1.26", "True"],
    ]
    written = json.loads((tmp_path / "figures.json").read_text())
    assert written["Title"] == [{"name": "a", "ours": 1.26, "quick": True}]
    assert written["machine"]["cores"] >= 1


# ---- tables of counts and games ----


def test_numpys_program_has_the_certified_noise() -> None:
    """Three families of counts, two changed cells a step, and a tree of 10 levels."""
    mdp, config, rng = RiverSwim(n_states=3, horizon=4).build(), next(iter(tabular.SUBJECTS)), np.random.default_rng(0)
    central, local = (NaiveUCBVI(mdp, built(config, mdp, trust(model), 1000), rng) for model in games.MODELS)
    assert central.noise_scale == pytest.approx(6 * 4 * 10)
    assert local.noise_scale == pytest.approx(6 * 4)


def test_linprogs_program_has_the_certified_noise_and_precision() -> None:
    """Two families of counts, two changed cells a step, and a tree of 10 levels."""
    chosen = games.BONUSES["small"]
    game = RandomGame(n_states=3, n_max_actions=3, n_min_actions=2, horizon=3).build()
    wider = replace(chosen, precision_scale=3.0 * chosen.precision_scale)

    def program(config: DPNashVIConfig, model: Model) -> NaiveNashVI:
        return NaiveNashVI(game, built(config, game, trust(model, games.EPSILON), 1000), np.random.default_rng(0))

    central, local, other = program(chosen, "jdp"), program(chosen, "ldp"), program(wider, "jdp")
    assert central.noise_scale == pytest.approx(4 * 3 * 10 / games.EPSILON)
    assert local.noise_scale == pytest.approx(4 * 3 / games.EPSILON)
    assert central.error > 4.0 * central.noise_scale * chosen.precision_scale
    assert (central.config, central.trust_model, local.trust_model) == (chosen, "jdp", "ldp")
    assert other.error == pytest.approx(3.0 * central.error)


@pytest.mark.parametrize("bonus", games.BONUSES)
def test_games_are_timed(bonus: str) -> None:
    spec = RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=2)
    row = games.against_linprog(games.Case("tiny", spec, FEW, FEW), bonus, "jdp", 1000)
    assert row["privacy"] == PRIVACY["jdp"]
    assert 0.0 < row["ours"] < row["plain"]
    assert bonus == "small" or row["mixed"] == 0.0


def test_rlberry_gets_the_same_mdp_with_rows_that_sum_to_one_exactly(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(20, 0.1), size=(20, 4))
    rewards = np.linspace(0.0, 1.0, 80).reshape(20, 4)
    mdp = FiniteMDP("test", np.tile(rows, (3, 1, 1, 1)), np.tile(rewards, (3, 1, 1)), np.eye(20)[2])
    rlberry.save(mdp, tmp_path / "mdp.npz")
    with np.load(tmp_path / "mdp.npz") as saved:
        assert (saved["transitions"].sum(axis=-1) == 1.0).all()
        assert np.abs(saved["transitions"] - rows).max() < 1e-10
        assert (saved["rewards"] == rewards).all()
        assert (saved["start"], saved["horizon"]) == (2, 3)
