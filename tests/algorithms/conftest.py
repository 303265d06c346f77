"""Learners for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dprl.algorithms import ALGORITHMS, Algorithm
from dprl.envs import FiniteMDP
from dprl.privacy import NoPrivacy, Streams


def _learner(
    mdp: FiniteMDP,
    episodes: int,
    privacy: Any = None,
    *,
    name: str = "private_ucb_vi",
    seed: int = 0,
    **settings: float,
) -> Algorithm:
    algorithm, streams = ALGORITHMS[name](**settings), Streams(seed, "test")
    privatizer = algorithm.privatizer(mdp, privacy or NoPrivacy(), episodes, streams)
    return algorithm.build(mdp, privatizer, episodes, streams)


@pytest.fixture
def learner() -> Callable[..., Algorithm]:
    """Return a maker of learners: learner(mdp, episodes, privacy, name=, seed=, **settings)."""
    return _learner
