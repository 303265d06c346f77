"""Learners and environments for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS, TabularLearner
from dprl.envs import Env, FiniteMDP, MarkovGame, RandomGame, RandomMDP, RiverSwim
from dprl.privacy import CountPrivacy, Streams
from tests.algorithms.cases import Environments


def _learner(
    env: Env, episodes: int, privacy: Any = None, *, name: str = "private_ucb_vi", seed: int = 0, **settings: float
) -> TabularLearner:
    config: Any = ALGORITHMS[name]
    algorithm, streams = config(**settings), Streams(seed, "test")
    privatizer = algorithm.privatizer(env, privacy or CountPrivacy("none"), episodes, streams)
    built: TabularLearner = algorithm.build(env, privatizer, episodes, streams)
    return built


@pytest.fixture
def learner() -> Callable[..., TabularLearner]:
    """Return a function that makes learners: learner(env, episodes, privacy, name=, seed=, **settings)."""
    return _learner


@pytest.fixture(scope="session")
def river() -> FiniteMDP:
    """Return RiverSwim with S = 3, A = 2, H = 4."""
    return RiverSwim(n_states=3, horizon=4).build()


@pytest.fixture(scope="session")
def random_mdp() -> FiniteMDP:
    """Return a random MDP with S = 4, A = 3, H = 5."""
    return RandomMDP(n_states=4, n_actions=3, horizon=5, seed=1).build()


@pytest.fixture(scope="session")
def small_mdp() -> FiniteMDP:
    """Return an MDP with S = 2, A = 2, H = 2 whose rewards are 0 or 1, and whose first state is random."""
    drawn = RandomMDP(n_states=2, n_actions=2, horizon=2, seed=3).build()
    rewards = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    return FiniteMDP("small", drawn.transitions, rewards, np.array([0.5, 0.5]))


@pytest.fixture(scope="session")
def environments(river: FiniteMDP, random_mdp: FiniteMDP, small_mdp: FiniteMDP) -> dict[type[Env], Environments[Any]]:
    """Return the environments of the tests by their class."""
    pair = RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=3, seed=5).build()
    drawn = RandomGame(n_states=3, n_max_actions=3, n_min_actions=2, horizon=4, seed=2).build()
    laws = RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=2, seed=3).build().transitions
    rewards = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]]] * 2)
    tiny = MarkovGame("tiny", laws, rewards, np.array([0.5, 0.5]))
    return {FiniteMDP: Environments(river, random_mdp, small_mdp), MarkovGame: Environments(pair, drawn, tiny)}


@pytest.fixture
def envs(name: str, environments: dict[type[Env], Environments[Any]]) -> Environments[Any]:
    """Return environments that the algorithm `name` plays."""
    return environments[ALGORITHMS[name].plays]
