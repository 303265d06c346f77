"""dppg with correlated noise: it learns, and a run depends on its seed only, even if interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.algorithms import DPPGConfig
from dprl.envs import Control
from dprl.privacy import GradientPrivacy, NoiseConfig, Streams

USERS, ROUNDS = 6, 7
N = USERS * ROUNDS


def learner(counter: str, arithmetic: Any = "fast", epsilon: float = 5.0, n: int = N, **settings: Any) -> Any:
    config = DPPGConfig(**{"users_per_update": USERS, "hidden": "4", **settings})
    privacy = GradientPrivacy("jdp", epsilon, 1e-6, "clipped_gaussian", 2.0, counter=counter)
    env, streams = Control(horizon=100).build(), Streams(0, "correlated", NoiseConfig(arithmetic))
    return config.build(env, config.privatizer(env, privacy, n, streams), n, streams)


@pytest.mark.parametrize(("counter", "arithmetic"), [("buffered_toeplitz", "fast"), ("kary_tree", "exact")])
def test_a_run_is_its_seed_however_it_is_cut(counter: str, arithmetic: Any) -> None:
    whole, cut, resumed = (learner(counter, arithmetic) for _ in range(3))
    whole.learn(N)
    cut.learn(13)
    resumed.load_state_dict(cut.state_dict())
    for run in (cut, resumed):
        run.learn(N - 13)
        ours, theirs = whole.state_dict(), run.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(ours[key].tobytes() == theirs[key].tobytes() for key in ours)
    told = whole.certificate().to_dict()
    assert (told["verdict"], told["users"]) == ("holds", N)


def test_policies_improve() -> None:
    """CartPole of 100 steps; a random policy lasts 22 steps. At epsilon 1 updates are nearly pure noise."""
    settings: dict[str, Any] = {"n": 3000, "users_per_update": 100, "hidden": "linear", "learning_rate": 1.0}
    run = learner("buffered_toeplitz", epsilon=10.0, halving=1000.0, **settings)
    found = run.learn(3000)
    assert found["evaluation"] > 80.0
    assert np.isfinite(run.derived["noise_norm"])


def test_the_step_does_not_depend_on_the_clip() -> None:
    """All updates here are longer than the clips."""
    found = []
    for clip in (1e-3, 1e-6):
        config, env = DPPGConfig(users_per_update=USERS, hidden="4"), Control(horizon=100).build()
        streams = Streams(0, "clip", NoiseConfig())
        privacy = GradientPrivacy("none", clip=clip)
        made = config.build(env, config.privatizer(env, privacy, USERS, streams), USERS, streams)
        before = made.policy
        made.learn(USERS)
        found.append(made.policy - before)
    assert np.linalg.norm(found[0]) > 0.01
    assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-9)
