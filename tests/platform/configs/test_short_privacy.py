"""The short form of `privacy` has the least noise known for the run's own schedule, for every algorithm."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.algorithms import ALGORITHMS
from dprl.envs import LoggedEpisodes
from dprl.platform.configs.experiment import Experiment, read_experiment

ENVS: dict[str, dict[str, Any]] = {
    "FiniteMDP": {"name": "riverswim", "n_states": 4, "horizon": 5},
    "MarkovGame": {"name": "random_game", "n_states": 3, "horizon": 3},
    "LinearMixtureMDP": {"name": "network_mdp", "dimension": 3, "signs": "random", "horizon": 4},
}
COUNTS = [name for name, made in ALGORITHMS.items() if made.releases == "counts" and made.plays is not LoggedEpisodes]
BUDGETS = [("jdp", 1e-6), ("jdp", 0.0), ("ldp", 1e-6), ("ldp", 0.0)]


def cell(name: str, model: str, **privacy: Any) -> Experiment:
    return read_experiment(
        {
            "name": "short",
            "algorithm": {"name": name},
            "env": ENVS[ALGORITHMS[name].plays.__name__],
            "privacy": {"model": model, "epsilon": 1.0, **privacy},
            "episodes": 2000,
            "seeds": 1,
        }
    )


@pytest.mark.parametrize(("model", "delta"), BUDGETS)
@pytest.mark.parametrize("name", COUNTS)
def test_noise_of_counts_is_at_most_a_fiftieth_above_the_least_known(name: str, model: str, delta: float) -> None:
    certificate = cell(name, model, delta=delta).certificate().to_dict()
    assert certificate["best_available"]["ratio"] <= 1.02
    assert certificate["verdict"] == "holds"
    assert certificate["proved"]["epsilon_at_claimed_delta"] <= 1.0


@pytest.mark.parametrize(("model", "delta"), BUDGETS)
def test_noise_of_statistics_is_the_least_of_all_mechanisms_and_counters(model: str, delta: float) -> None:
    def largest_scale(**privacy: Any) -> float:
        query = cell("ma_ldp", model, delta=delta, **privacy).privatizer().query
        if query.counter is None:
            return float(max(query.law.scales))
        worst = query.counter.errors()[0] * query.counter.node.scale
        return float(max(query.scales) * worst)

    mechanisms = ["gram_laplace"] + (["gram_gaussian"] if delta > 0.0 else [])
    counters = ["binary_tree", "kary_tree"] if model == "jdp" else [None]
    rivals = [
        largest_scale(mechanism=mechanism, **({} if counter is None else {"counter": counter}))
        for mechanism in mechanisms
        for counter in counters
    ]
    assert largest_scale() <= 1.02 * min(rivals)


@pytest.mark.parametrize("model", ["jdp", "ldp"])
@pytest.mark.parametrize("name", ["private_ucb_vi", "dp_nash_vi"])
def test_printed_noise_is_the_papers(name: str, model: str) -> None:
    """Laplace noise on separate families, and a binary tree."""
    query = cell(name, model, calibration="printed").privatizer().query
    assert query.encoding.kind == "separate"
    assert query.law.name == "laplace"
    assert query.counter.name == ("binary_tree" if model == "jdp" else "exact")
