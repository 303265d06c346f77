"""The game benchmark's own parts: it times what it reports, and states whether a goal was met."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from rich.console import Console

from benchmarks import games
from benchmarks.harness import Blocks, command_line
from benchmarks.naive_dp_nash_vi import (
    NaiveNashVI,
    PureFirstNashVI,
    Settings,
    equilibrium_by_linprog,
    exploitability,
    marginals,
    nearest_closed_form,
    pure_equilibrium,
)
from benchmarks.naive_ucb_vi import Counts
from benchmarks.subjects import Model, built, trust
from dprl.algorithms import DPNashVIConfig, TabularLearner
from dprl.envs.games import MarkovGame, RandomGame
from dprl.envs.games.equilibria import equilibrium_scratch
from dprl.privacy import CountPrivatizer, Streams
from dprl.privacy.randomness.bits import fill_uniform
from tests.algorithms.dp_nash_vi.oracle import CheckedNashVI

CHOSEN = DPNashVIConfig(bonus_scale=0.003, precision_scale=0.05, c1=0.7, c2=1.3)


def small_game() -> MarkovGame:
    return RandomGame(n_states=3, n_max_actions=3, n_min_actions=2, horizon=3).build()


def twins(
    program: type[NaiveNashVI], model: str, episodes: int, seed: int
) -> tuple[TabularLearner, NaiveNashVI, Streams]:
    game, streams = small_game(), Streams(seed, "agreement")
    privatizer = CHOSEN.privatizer(game, trust(cast("Model", model), 1000.0), episodes, streams)
    theirs = program(game, episodes, Settings.of(privatizer, CHOSEN), np.random.default_rng(seed))
    return CHOSEN.build(game, privatizer, episodes, streams), theirs, streams


def released(game: MarkovGame, privatizer: CountPrivatizer) -> Counts:
    """Our private counts in the yardstick's layout: ours hold a step's transitions as [S', S, A, B]."""
    counts, (horizon, n_states, n_max, n_min) = privatizer.release(), game.rewards.shape
    by_next = privatizer.query.family(counts, "transitions").reshape(horizon, n_states, n_states, n_max, n_min)
    return Counts(
        privatizer.query.family(counts, "visits").reshape(game.rewards.shape), np.moveaxis(by_next, 1, 4), np.zeros(0)
    )


def test_games_without_a_pure_equilibrium_have_none() -> None:
    for kind, most in zip(games.KINDS, (games._GAMES, 0), strict=True):
        upper, lower = games.matrix_games(3, kind)
        pure = sum(pure_equilibrium(u, v) is not None for u, v in zip(upper, lower, strict=True))
        assert pure == 0 if most == 0 else 0 < pure < most
        assert (upper >= lower).all()


def test_the_loop_over_games_solves_the_last_one_last() -> None:
    upper, lower = games.matrix_games(3, "no pure")
    policy = np.zeros((3, 3))
    games.solve_often(2, upper, lower, equilibrium_scratch(3, 3), policy)
    gap = (policy * (upper[-1] - lower[-1])).sum()
    assert gap == pytest.approx(
        (equilibrium_by_linprog(upper[-1], lower[-1]) * (upper[-1] - lower[-1])).sum(), abs=1e-5
    )


@pytest.mark.parametrize("visits", games.VISITS)
def test_the_loop_over_tables_post_processes_the_last_one_last(visits: games.Visits) -> None:
    given = games.programmes(4, 6, visits)
    games.postprocess_often(2, *given)
    last = given.tables[-1]
    expected = nearest_closed_form(last[:-1].T, last[-1], given.slack)
    np.testing.assert_allclose(given.found.counts.T, expected, atol=1e-9)


def test_many_visits_are_many_beside_the_noise() -> None:
    few, many = (games.programmes(5, 45, visits).tables[:, :-1] for visits in games.VISITS)
    assert (few < 0.0).mean() > 0.3
    assert (many < 0.0).mean() < 0.01


def test_kernels_are_timed_beside_linprog() -> None:
    equilibria = games.measure_equilibria(2, "any", effort=1)
    assert 0.0 < 50.0 * equilibria["ours"] < equilibria["linprog"] < 1e5
    rows = games.measure_postprocessing(5, 45, "few", effort=1)
    assert 0.0 < 500.0 * rows["ours"] < rows["linprog"] < 1e8


def test_the_table_says_what_was_met() -> None:
    def row(case: str, privacy: str, *times: float) -> dict[str, object]:
        took = dict(zip(("ours", "linprog", "closed_form", "pure_first"), times, strict=True))
        return {"case": case, "bonus": "small", "privacy": privacy, "mixed": 0.7, "mixed_naive": 0.6, **took}

    small, large = games.CASES
    rows = [
        games.with_goals(small, row(small.label, "central", 18.0, 190_000.0, 17_000.0, 600.0)),
        games.with_goals(large, row(large.label, "local", 160.0, 1_500_000.0, 100_000.0, 2_000.0)),
    ]
    text = io.StringIO()
    games.report(Console(file=text, width=200), rows)
    central, local = [line for line in text.getvalue().splitlines() if "S=" in line]
    assert "central" in central
    assert ">= 10000 met" in central
    assert ">= 1000 missed" in central
    assert "local" in local
    assert ">= 10000 missed" in local
    assert ">= 600 met" in local
    assert "70%, theirs 60%" in local


def test_without_noise_both_make_the_same_moves() -> None:
    episodes = 150
    ours, theirs, streams = twins(PureFirstNashVI, "none", episodes, seed=1)
    uniforms, mixed = np.empty(2 * theirs.horizon + 1), 0
    for k in range(1, episodes + 1):
        done = ours.learn(1)
        plan = theirs.plan(theirs.private_counts())
        theirs.deploy(plan)
        np.testing.assert_allclose(plan.policy, ours.policy, atol=1e-7, err_msg=f"episode {k}")
        gap = float(theirs.game.start @ (plan.upper[0] - plan.lower[0]))
        assert done.metrics["gap"] == pytest.approx(gap, abs=1e-7)
        assert done.metrics["smallest_gap"] == pytest.approx(theirs.smallest_gap, abs=1e-7)
        assert done.regret == pytest.approx(exploitability(theirs.game, *marginals(plan.policy)), abs=1e-6)
        fill_uniform(uniforms, streams.key("env"), np.uint64(k) * np.uint64(uniforms.size))
        theirs.absorb(*theirs.roll_out(uniforms))
        mixed += games.mixed_share(plan.policy) > 0.0
    np.testing.assert_allclose(ours.policies["policy"], theirs.output, atol=1e-7)
    assert mixed > 40


@pytest.mark.parametrize("model", ["jdp", "ldp"])
@pytest.mark.parametrize(("program", "plans"), [(CheckedNashVI, 12), (PureFirstNashVI, 60)])
def test_the_same_private_counts_give_the_same_plan(program: type[NaiveNashVI], plans: int, model: str) -> None:
    game = small_game()
    ours, theirs, _ = twins(program, model, 3000, seed=2)
    policies, mixed = set(), 0.0
    for k in range(plans):
        ours.learn(2000 // plans)
        plan = theirs.plan(released(game, ours.privatizer))
        done = ours.learn(1)
        np.testing.assert_allclose(plan.policy, ours.policy, atol=1e-7, err_msg=f"plan {k + 1}")
        assert done.metrics["gap"] == pytest.approx(float(game.start @ (plan.upper[0] - plan.lower[0])), abs=1e-7)
        policies.add(plan.policy.tobytes())
        mixed += games.mixed_share(plan.policy)
    assert len(policies) > 10
    assert mixed > 1.0


def test_the_yardstick_has_the_certified_noise_and_precision() -> None:
    """Two families of counts, two changed cells a step, and a tree of 10 levels."""
    chosen = games.BONUSES["small"]

    def settings(chosen: DPNashVIConfig, model: Model) -> Settings:
        return Settings.of(built(chosen, small_game(), trust(model, games.EPSILON), 1000).privatizer, chosen)

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
    monkeypatch.setattr(games, "CASES", (games.Case("tiny", spec, few, few, few, 1.0, 1.0),))
    monkeypatch.setattr(games, "EQUILIBRIUM_SIZES", (2,))
    monkeypatch.setattr(sys, "argv", ["games", "--quick", "--json", str(tmp_path / "figures.json")])
    assert command_line(games.run, games.__doc__) == 0
    written = json.loads((tmp_path / "figures.json").read_text())
    assert [(row["bonus"], row["model"]) for row in written["learners"]] == [
        (bonus, model) for bonus in ("paper's", "small") for model in ("jdp", "ldp")
    ]
    assert all(row["mixed"] == 0.0 for row in written["learners"] if row["bonus"] == "paper's")
    assert all(0.0 < row["ours"] < row["closed_form"] < row["linprog"] for row in written["learners"])
    assert len(written["equilibria"]) == 2
    assert len(written["postprocessing"]) == 2
