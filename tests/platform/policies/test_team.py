"""Policies of cooperating agents: independent draws, their probabilities, exact values, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.envs import LinearMixtureEnv, NetworkMDP, make_mixture
from dprl.platform.policies import TeamPolicy, load_policy
from dprl.platform.results.cell_folder import CellFolder
from tests.platform.policies.cases import TEAM_ENV, mixed_table, ran, team_blocks, written

MDP = TEAM_ENV.build()
PLACES = [(0, 0), (1, 4), (3, 8)]


def test_a_run_leaves_policies_that_act(tmp_path: Path) -> None:
    """Each seed has its own table; two tables may agree, because a dozen bits determine little."""
    cell = CellFolder(ran(tmp_path, TEAM_ENV))
    with np.load(cell.policy_file) as file:
        tables = dict(zip(file["seed"].tolist(), file["policy"], strict=True))
    for seed in (5, 6):
        policy = load_policy(tmp_path, seed)
        assert isinstance(policy, TeamPolicy)
        np.testing.assert_array_equal(policy.table, tables[seed])
        assert policy.env == TEAM_ENV
        assert len(policy((0, 0))) == MDP.n_agents
        assert MDP.worst()[0][0, MDP.start] <= policy.start_value <= MDP.optimal_start_value() + 1e-12


def test_agents_draw_independently_with_their_probabilities() -> None:
    """Five standard errors for 3 x (16 pairs + 2 x 4 shares): a false alarm in about 20,000 seeds."""
    policy, draws = TeamPolicy(mixed_table(), TEAM_ENV, np.random.default_rng(1)), 4000
    for place in PLACES:
        pairs, alone = np.zeros((4, 4)), np.zeros((2, 4))
        for _ in range(draws):
            pairs[policy(place)] += 1 / draws
            for i in range(2):
                alone[i, policy.agents[i](place)] += 1 / draws
        first, second = policy.table[place]
        for found, expected in ((pairs, np.outer(first, second)), (alone, policy.table[place])):
            assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / draws))
        for i, expected in enumerate((first, second)):
            np.testing.assert_array_equal(policy.agents[i].probabilities(place), expected)
    assert np.abs(mixed_table()[:, :, 0] - mixed_table()[:, :, 1]).max() > 0.5


def test_values_are_the_environments_own() -> None:
    best = np.eye(MDP.n_actions)[MDP.optimum()[1]]
    assert TeamPolicy(best, TEAM_ENV).start_value == pytest.approx(MDP.optimal_start_value(), abs=1e-12)
    even = np.full_like(best, 1 / MDP.n_actions)
    assert TeamPolicy(even, TEAM_ENV).start_value == pytest.approx(MDP.uniform_value()[0, MDP.start], abs=1e-12)
    joint = np.einsum("hsa,hsb->hsab", *np.moveaxis(mixed_table(), 2, 0)).reshape(4, 9, 16)
    assert TeamPolicy(mixed_table(), TEAM_ENV).start_value == pytest.approx(MDP.joint().start_value(joint), abs=1e-12)


@pytest.mark.parametrize("env", [TEAM_ENV, NetworkMDP(n_agents=1, gap=0.1), NetworkMDP(n_agents=3, gap=0.05)])
def test_the_policy_plays_in_the_environment_of_its_run(env: NetworkMDP) -> None:
    policy = TeamPolicy(mixed_table(env), env)
    episodes, again = policy.make_env(), make_mixture(**policy.env_config)
    assert isinstance(episodes, LinearMixtureEnv)
    np.testing.assert_array_equal(again.mdp.transitions(), episodes.mdp.transitions())
    assert again.mdp.horizon == episodes.mdp.horizon
    observations, _ = episodes.reset(seed=0)
    while episodes.agents:
        actions = policy(observations["agent_0"])
        assert len(actions) == env.n_agents
        assert all(type(action) is int for action in actions)
        observations, *_ = episodes.step(dict(zip(episodes.agents, actions, strict=True)))
    assert observations["agent_0"][0] == policy.mdp.horizon


def test_the_guides_lines_run(root: Path, tmp_path: Path) -> None:
    """The examples without RLlib; those with RLlib are tested with a cluster."""
    blocks = team_blocks(root, written(tmp_path, mixed_table()[None], TEAM_ENV))
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks[:2]:
        exec(block, names)  # code from the project's own page
    assert len(names["actions"]) == 2
    assert names["first"] in range(4)
    assert names["exact"] == pytest.approx(names["each"].mean(), abs=1e-12)
    assert names["least"] < names["exact"] < names["best"]
    assert names["terminations"] == {"agent_0": True, "agent_1": True}
