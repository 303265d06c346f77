"""The game benchmark: its yardstick has our noise, and it times what it reports."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import games
from benchmarks.harness import Blocks, command_line
from benchmarks.naive_dp_nash_vi import Settings
from benchmarks.subjects import Model, built, trust
from dprl.algorithms import DPNashVIConfig
from dprl.envs.games import RandomGame


def test_the_yardstick_has_the_certified_noise_and_precision() -> None:
    """Two families of counts, two changed cells a step, and a tree of 10 levels."""
    chosen = games.BONUSES["small"]
    game = RandomGame(n_states=3, n_max_actions=3, n_min_actions=2, horizon=3).build()

    def settings(chosen: DPNashVIConfig, model: Model) -> Settings:
        return Settings.of(built(chosen, game, trust(model, games.EPSILON), 1000).privatizer, chosen)

    central, local = (settings(chosen, model) for model in games.MODELS)
    assert central.noise_scale == pytest.approx(4 * 3 * 10 / games.EPSILON)
    assert local.noise_scale == pytest.approx(4 * 3 / games.EPSILON)
    assert central.error > 4.0 * central.noise_scale * chosen.precision_scale
    assert (central.bonus_scale, central.trust_model, local.trust_model) == (chosen.bonus_scale, "jdp", "ldp")
    wider = replace(chosen, precision_scale=3.0 * chosen.precision_scale)
    assert settings(wider, "jdp").error == pytest.approx(3.0 * central.error)


def test_a_whole_run_is_printed_and_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=2)
    few = Blocks(1, repeats=1)
    monkeypatch.setattr(games, "CASES", (games.Case("tiny", spec, few, few, few),))
    monkeypatch.setattr(sys, "argv", ["games", "--quick", "--json", str(tmp_path / "figures.json")])
    assert command_line(games.run, games.__doc__) == 0
    written = json.loads((tmp_path / "figures.json").read_text())
    assert [(row["bonus"], row["model"]) for row in written["learners"]] == [
        (bonus, model) for bonus in ("paper's", "small") for model in ("jdp", "ldp")
    ]
    assert all(row["mixed"] == 0.0 for row in written["learners"] if row["bonus"] == "paper's")
    assert all(row[key] > 0.0 for row in written["learners"] for key in ("ours", "pure_first", "linprog"))
