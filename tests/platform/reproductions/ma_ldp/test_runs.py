"""Runs from the records of a cell, the cell of an experiment, and regrets of policies that learn nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dprl.envs.network_mdp import LinearMixtureMDP, NetworkMDP
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import read_experiment
from dprl.platform.reproductions.ma_ldp import (
    AGAIN,
    AGENTS,
    CLIPPED,
    CONFIG,
    EPISODES,
    FEATURES,
    FIGURE,
    GROUPS,
    HORIZON,
    ILLUSTRATIONS,
    MAXMIN,
    NON_PRIVATE_CEILING,
    PAPER,
    PRINTED,
    levels,
    read,
)
from dprl.platform.results.cell_folder import CellResults
from tests.platform.reproductions.ma_ldp.cases import every_key


def results() -> CellResults:
    """Two runs of 10 episodes, whose rows are not in order."""
    rows = [
        {"seed": seed, "episode": end, "regret": (seed + 1.0) * end, "saturated": share, "indefinite": 0.0}
        for seed in range(2)
        for end, share in ((4, 1.0), (9, 0.0), (10, 0.5))
    ]
    records = pd.DataFrame(rows).sample(frac=1.0, random_state=0)
    return CellResults(records, {"verdict": "holds"}, 1.0, 0.0)


def test_regrets_are_summed_and_shares_are_means_over_episodes() -> None:
    found = read(results())
    assert found.values["regret"].tolist() == [10.0, 20.0]
    assert found.facts["saturated"] == pytest.approx((4 * 1.0 + 5 * 0.0 + 0.5) / 10)
    assert (found.count, found.episodes) == (2, 10)


def test_levels_are_those_of_the_environment() -> None:
    found = levels(EPISODES)
    assert found["uniform"] == pytest.approx(5627.83, abs=0.01)
    mdp = NetworkMDP().build()
    at_random = np.full((mdp.horizon, mdp.n_states, mdp.n_agents, mdp.n_actions), 1.0 / mdp.n_actions)
    assert found["uniform"] == pytest.approx(EPISODES * (mdp.optimal_start_value() - mdp.start_value(at_random)))
    assert found["worst"] == pytest.approx(EPISODES * (mdp.optimal_start_value() - mdp.start_value(mdp.worst()[1])))


def test_the_config_has_each_cell_of_the_page_once() -> None:
    keys = every_key()
    assert len(set(keys)) == len(keys) == len(load_cells(CONFIG))
    assert {key.group for key in keys} == {group.name for group in GROUPS}
    for group in (PRINTED, AGAIN, MAXMIN, CLIPPED, *ILLUSTRATIONS):
        sides = {(key.mechanism, key.epsilon) for key in keys if key.group == group}
        assert {(side.key.mechanism, side.key.epsilon) for side in FIGURE} <= sides


def test_the_config_has_the_papers_settings() -> None:
    for cell in load_cells(CONFIG):
        mdp = cell.env.build()
        assert isinstance(mdp, LinearMixtureMDP)
        assert (cell.episodes, mdp.horizon, mdp.n_agents, mdp.dimension) == (EPISODES, HORIZON, AGENTS, FEATURES)
        flat, key = cell.parameters(), PAPER.key_of(cell)
        assert key is not None
        if key.group in {PRINTED, AGAIN, MAXMIN}:
            assert (flat["algorithm.bonus_scale"], flat["algorithm.shift_scale"]) == (1.0, 1.0)
            assert (flat["privacy.rewards"], flat["privacy.noise_scale"]) == ("open", 1.0)


def test_only_what_is_called_not_private_has_less_noise_than_it_claims() -> None:
    for cell in load_cells(CONFIG):
        flat, key = cell.parameters(), PAPER.key_of(cell)
        assert key is not None
        weak = flat["privacy.model"] == "none" or float(flat.get("privacy.noise_scale", 1.0)) < 1.0
        group = next(group for group in GROUPS if group.name == key.group)
        assert weak == (not group.private) == (group.name in {*NON_PRIVATE_CEILING, *ILLUSTRATIONS})
        assert weak == ("NOT PRIVATE" in group.words)


def test_an_experiment_of_other_settings_is_no_cell() -> None:
    mapping = load_cells(CONFIG)[0].as_mapping()
    mapping["privacy"]["clipping"] = "device"
    mapping["privacy"]["noise_scale"] = 0.5
    assert PAPER.key_of(read_experiment(mapping)) is None
