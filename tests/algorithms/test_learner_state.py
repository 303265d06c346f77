"""What a learner's saved state belongs to: the same settings, environment and seed, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.envs import ENVIRONMENTS, FiniteMDP
from dprl.privacy import CentralPrivacy
from tests.algorithms.cases import Learner

PRIVACY = CentralPrivacy(20.0)


def saved(learner: Learner, mdp: FiniteMDP, **settings: Any) -> dict[str, np.ndarray]:
    algorithm = learner(mdp, 200, PRIVACY, replan_growth=0.5, **settings)
    algorithm.learn(70)
    return {key: value.copy() for key, value in algorithm.state_dict().items()}


@pytest.mark.parametrize(
    "other",
    [{"replan_growth": 0.0}, {"bonus_scale": 0.5}, {"name": "pucb"}, {"beta": 0.2}],
    ids=["schedule", "scale", "algorithm", "beta"],
)
def test_a_state_of_other_settings_is_refused(other: dict[str, Any], learner: Learner, river: FiniteMDP) -> None:
    fresh = learner(river, 200, PRIVACY, **({"replan_growth": 0.5} | other))
    with pytest.raises(ValueError, match="the same settings"):
        fresh.load_state_dict(saved(learner, river))


def test_a_state_of_another_environment_is_refused(learner: Learner, river: FiniteMDP) -> None:
    """Otherwise the noise of one prefix would hide two sums, whose difference is then known."""
    changed: Any = ENVIRONMENTS["riverswim"]
    mdp = changed(n_states=3, horizon=4, version="bourel").build()
    with pytest.raises(ValueError, match="environment"):
        learner(mdp, 200, PRIVACY, replan_growth=0.5).load_state_dict(saved(learner, river))


@pytest.mark.parametrize("key", ["tables.policy", "schedule.planned", "episodes_done", "digest"])
def test_a_changed_state_is_refused(key: str, learner: Learner, river: FiniteMDP) -> None:
    state = saved(learner, river)
    state[key] = state[key] + np.ones_like(state[key])
    with pytest.raises(ValueError, match="start anew"):
        learner(river, 200, PRIVACY, replan_growth=0.5).load_state_dict(state)


TWO_LOOPS = """
import sys
from dprl.algorithms import PrivateUCBVIConfig
from dprl.algorithms.tabular import learning_loop
from dprl.envs import RandomMDP
from dprl.privacy import NoPrivacy, Streams, kernel

@kernel
def one(counts, bonus, tables):
    tables.policy[:] = 1
    return True, 0.0

@kernel
def two(counts, bonus, tables):
    tables.policy[:] = {action}
    return True, 0.0

chosen = {{"one": one, "two": two}}[sys.argv[1]]

class Config(PrivateUCBVIConfig):
    plan = staticmethod(chosen)
    run = staticmethod(learning_loop(chosen))

mdp, streams, config = RandomMDP(n_states=2, n_actions=4, horizon=2).build(), Streams(0, "loops"), Config()
learner = config.build(mdp, config.privatizer(mdp, NoPrivacy(), 9, streams), 9, streams)
learner.learn(9)
print(learner.policy[0, 0])
"""


@pytest.mark.slow
def test_the_cache_on_disk_tells_loops_and_their_versions_apart(tmp_path: Path) -> None:
    script = tmp_path / "plans.py"
    found = []
    for name, action in (("one", 2), ("two", 2), ("two", 3)):
        script.write_text(TWO_LOOPS.format(action=action))
        command = [sys.executable, "-P", str(script), name]
        found.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    assert found == [1, 2, 3]
