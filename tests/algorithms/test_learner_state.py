"""A learner's saved state fits the same settings, environment and seed only."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivacy
from tests.algorithms.cases import EACH, Environments, Learner

PRIVACY = CountPrivacy("jdp", 20.0)
# Other values of settings that are not numbers.
OTHER_CHOICES = {"constants": "proved", "counts": "costs", "simulation": "users"}
# Settings of pooled counts, for environments that are the same at every step, and a name for other scales.
APART = {"stationary", "preset"}


def saved(learner: Learner, mdp: FiniteMDP, **settings: Any) -> dict[str, np.ndarray]:
    algorithm = learner(mdp, 200, PRIVACY, replan_growth=0.5, **settings)
    algorithm.learn(70)
    return {key: value.copy() for key, value in algorithm.state_dict().items()}


@EACH
def test_a_state_of_other_settings_environment_or_seed_is_refused(
    name: str, learner: Learner, envs: Environments[Any]
) -> None:
    """Otherwise the same noise would be added to two sums, and their difference would be exact."""
    algorithm: Any = learner(envs.tiny, 50, PRIVACY, name=name)
    algorithm.learn(20)
    state = algorithm.state_dict()
    env, config = envs.tiny, algorithm.config
    others = [dataclasses.replace(env, rewards=1.0 - env.rewards), dataclasses.replace(env, start=env.start * [2, 0])]
    others.append(dataclasses.replace(env, transitions=env.transitions[..., ::-1]))
    foreign = [learner(other, 50, PRIVACY, name=name) for other in others]
    fixed = APART if config.online else APART | {"replan_growth"}
    fixed |= {"beta"} if name == "random_vi" else set()  # it refuses the key
    for key in {field.name for field in dataclasses.fields(config)} - fixed:
        value = getattr(config, key)
        other = OTHER_CHOICES[key] if isinstance(value, str) else 0.5 * value + 0.01
        other = not value if isinstance(value, bool) else other
        foreign.append(learner(env, 50, PRIVACY, name=name, **{key: other}))
    foreign += [learner(env, 50, PRIVACY, name=name, seed=1), learner(env, 51, PRIVACY, name=name)]
    for stranger in foreign:
        with pytest.raises(ValueError, match="same settings"):
            stranger.load_state_dict(state)
    same = learner(env, 50, PRIVACY, name=name)
    same.load_state_dict(state)
    assert same.learn(30) == algorithm.learn(30)


def test_a_state_of_counts_that_are_pooled_in_another_way_is_refused(learner: Learner, river: FiniteMDP) -> None:
    ways: list[dict[str, Any]] = [{}, {"stationary": True}]
    states = [saved(learner, river, name="bernstein_vi", **way) for way in ways]
    for way in ways:
        for other, state in zip(ways, states, strict=True):
            if other != way:
                with pytest.raises(ValueError, match="same settings"):
                    learner(river, 200, PRIVACY, name="bernstein_vi", replan_growth=0.5, **way).load_state_dict(state)


def test_a_state_of_which_the_messages_are_another_runs_is_refused(learner: Learner, river: FiniteMDP) -> None:
    """The same noise would be added to sums of other users, and the difference would be exact."""
    other = learner(dataclasses.replace(river, rewards=1.0 - river.rewards), 200, PRIVACY, replan_growth=0.5)
    other.learn(70)
    messages = {key: array for key, array in other.state_dict().items() if key.startswith("privatizer.")}
    with pytest.raises(ValueError, match="the same settings, environment and seed, unchanged"):
        learner(river, 200, PRIVACY, replan_growth=0.5).load_state_dict(saved(learner, river) | messages)
