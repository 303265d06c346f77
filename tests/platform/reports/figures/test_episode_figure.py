"""The figure of an episode shows cart, pole and pushes of the first seed's policy, and how the episode ended."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.reports.figures.learning import cell_figures, episode_figure, play
from dprl.platform.results.summary import columns
from dprl.privacy import Streams
from tests.platform.reports.cases import is_png


def cell_of_agents(seeds: int) -> Experiment:
    return read_experiment(
        {
            "name": "try",
            "algorithm": {"name": "pgc_a3c"},
            "env": {"name": "cartpole_gravity"},
            "privacy": {"model": "none"},
            "episodes": 10,
            "seeds": seeds,
            "seed": 3,
        }
    )


def some_parameters(one: Experiment, seed: int) -> np.ndarray:
    algorithm: Any = one.algorithm
    return np.asarray(algorithm.initial_parameters(Streams(seed, "a test")))


def test_an_episode_is_drawn_with_its_end(drawn: list[Figure]) -> None:
    one = cell_of_agents(seeds=1)
    parameters = some_parameters(one, 3)
    episode = play(ActorCriticPolicy(parameters, one.env), 3)  # type: ignore[arg-type]
    steps = len(episode.actions)
    assert len(episode.states) == steps + 1
    assert is_png(episode_figure(parameters, one))
    about, setting = drawn[0].get_suptitle().split("\n")
    end = f"lost after {steps} steps" if episode.fallen else f"still up after {steps} steps"
    assert about == f"An episode of the policy of seed 3, gravity {episode.gravity:.4g} m/s\u00b2: {end}"
    assert setting == "pgc_a3c on cartpole_gravity, without exploration"
    position, angle, action = drawn[0].axes
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["cart (m)", "pole (degrees)", "push"]
    assert action.get_xlabel() == "step"
    for axes, values in ((position, episode.states[:, 0]), (angle, np.degrees(episode.states[:, 2]))):
        line, low, high = axes.get_lines()
        np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), values)
        limits = [float(np.asarray(end.get_ydata(), dtype=float)[0]) for end in (low, high)]
        assert limits[0] == -limits[1]
        assert axes.get_ylim()[1] == -axes.get_ylim()[0] >= 1.149 * limits[1]
    assert math.isclose(float(np.asarray(angle.get_lines()[2].get_ydata(), dtype=float)[0]), 12.0)
    np.testing.assert_array_equal(np.asarray(action.get_lines()[0].get_ydata()), episode.actions)


def test_of_the_policies_of_a_cell_the_first_seeds_is_drawn() -> None:
    one = cell_of_agents(seeds=2)
    first, second = some_parameters(one, 3), some_parameters(one, 4)
    rows = pd.DataFrame(1.0, range(4), columns(one.metrics)).assign(seed=[3, 3, 4, 4], episode=[5, 10, 5, 10])
    found = cell_figures(rows, one, one.certificate().to_dict(), {"policy": np.array([first, second])})
    assert sorted(found) == ["episode.png", "score.png"]
    assert found["episode.png"] == episode_figure(first, one) != episode_figure(second, one)
